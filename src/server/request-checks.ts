/** Checks the body, path and headers of a request against the schemas of its route. */
import type { z } from 'zod';
import { SidaError } from '../errors.js';
import { oneLine } from '../text/one-line.js';
import { checkAgainst } from '../text/schema-faults.js';
import type { Route } from './routes/route.js';

/** Checks a request body. The first fault becomes a 400 that names the field. */
export function parseBody<T extends z.ZodType>(schema: T, body: unknown): z.infer<T> {
  const checked = checkAgainst(schema, body);
  if ('data' in checked) return checked.data;
  const { path, message, missing, unknown } = checked.fault;
  const name = path.join('.');
  if (unknown !== undefined) {
    throw invalid(message, name === '' ? unknown.slice(0, 100) : `${name}.${unknown.slice(0, 100)}`);
  }
  if (name === '') throw invalid(`The request body is wrong. ${message}`, undefined);
  // A message of the schema's own says what belongs there.
  if (missing && message.endsWith('but got nothing')) throw invalid(`The field "${name}" is missing`, name);
  throw invalid(`The field "${name}" is ${missing ? 'missing' : 'wrong'}. ${message}`, name);
}

/** A path with invalid parameters becomes a 404. */
export function checkParams({ params }: Route, given: unknown): void {
  if (params === undefined || params.safeParse(given).success) return;
  throw new SidaError({ code: 'not_found', message: 'There is nothing under this path' });
}

/** Checks the headers that the route reads. The first fault becomes a 400 that names the header. */
export function checkHeaders({ headers }: Route, given: unknown): void {
  if (headers === undefined) return;
  const checked = checkAgainst(headers, given);
  if ('data' in checked) return;
  const name = checked.fault.path.join('.');
  throw invalid(`The header "${name}" is wrong. ${checked.fault.message}`, name);
}

function invalid(message: string, param: string | undefined): SidaError {
  return new SidaError({
    code: 'invalid_request',
    message: oneLine(message, 500),
    ...(param !== undefined && { param: oneLine(param, 200) }),
  });
}
