/** Checks the body, path and headers of a request against the schemas of its route. */
import type { z } from 'zod';
import { SidaError } from '../errors.js';
import type { Route } from './routes/route.js';

/** Checks a request body. The first fault becomes a 400 that names the field. */
export function parseBody<T extends z.ZodType>(schema: T, body: unknown): z.infer<T> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw fromIssue(parsed.error.issues[0]!);
}

/** A path with invalid parameters becomes a 404. */
export function checkParams({ params }: Route, given: unknown): void {
  if (params === undefined || params.safeParse(given).success) return;
  throw new SidaError({ code: 'not_found', message: 'There is nothing under this path' });
}

/** Checks the headers that the route reads. The first fault becomes a 400 that names the header. */
export function checkHeaders({ headers }: Route, given: unknown): void {
  const issue = headers?.safeParse(given).error?.issues[0];
  if (issue === undefined) return;
  const name = issue.path.join('.');
  throw invalid(`The header "${name}" is wrong. ${issue.message}`, name);
}

type Issue = z.core.$ZodIssue;

function fromIssue(issue: Issue): SidaError {
  const path = issue.path.join('.');
  if (issue.code === 'unrecognized_keys') {
    const key = issue.keys[0]!.slice(0, 100);
    return invalid(`Unknown field ${JSON.stringify(key)}`, path === '' ? key : `${path}.${key}`);
  }
  if (path === '') return invalid(issue.message, undefined);
  if (issue.message.endsWith('received undefined')) return invalid(`The field "${path}" is missing`, path);
  return invalid(`The field "${path}" is wrong. ${issue.message}`, path);
}

function invalid(message: string, param: string | undefined): SidaError {
  return new SidaError({
    code: 'invalid_request',
    message: message.slice(0, 500),
    ...(param !== undefined && { param: param.slice(0, 200) }),
  });
}
