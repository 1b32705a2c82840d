/** Checks body, path and headers of a request against the schemas of its route; leaves out fields without effect. */
import type { z } from 'zod';
import { SidaError } from '../errors.js';
import { nearest } from '../text/nearest.js';
import { oneLine } from '../text/one-line.js';
import { checkAgainst } from '../text/schema-faults.js';
import type { Route } from './route.js';

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

/** Most fields that are named. */
const MOST_NAMED = 32;
/** Other names do not belong into a header. */
const NAME = /^[\w-]{1,64}$/;

interface IgnoredFields {
  /** Fields of the schema that have no effect. */
  ignores: readonly string[];
  /** Leaves unknown fields in the body, so that the schema refuses them. */
  strict: boolean;
}

/** Fields of other servers that decide which tokens an answer may have. */
const BINDING =
  /^(guided_(json|regex|choice|grammar|whitespace_pattern)|structured_outputs|grammar|json_schema|regex|ebnf|structural_tag|stop_token_ids|bad_words|allowed_token_ids|min_tokens|ignore_eos)$/;

/** Fields of other servers that resemble a field of this one. */
const OTHERS: ReadonlySet<string> = new Set(['mode', 'models', 'typ_p']);

/** Names that differ more are other names. */
const LETTERS_A_SLIP = 8;

/** Throws invalid_request for an unknown field that would have changed the answer, or seems to be misspelt. */
function checkUnknown([name, value]: [string, unknown], known: readonly string[]): void {
  const off = [null, false, 0, ''].includes(value as null) || (Array.isArray(value) && value.length === 0);
  if (off || OTHERS.has(name)) return;
  if (BINDING.test(name)) {
    const help = /json|regex|grammar|guided|structured|ebnf|tag/.test(name)
      ? 'use "response_format", or '
      : '';
    throw invalid(
      `The field "${name}" is not supported, and it would change the answer: ${help}leave it out`,
      name,
    );
  }
  const meant = NAME.test(name) ? nearest(name, known, LETTERS_A_SLIP) : undefined;
  if (meant !== undefined) throw invalid(`Unknown field "${name}"; did you mean "${meant}"?`, name);
}

/** Returns the body without unknown fields, and the names of those that have no effect. */
export function withoutIgnored(
  body: unknown,
  { shape }: z.ZodObject,
  { ignores, strict }: IgnoredFields,
): { used: unknown; ignored: string[] } {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return { used: body, ignored: [] };
  const fields = Object.entries(body);
  const known = (name: string) => Object.hasOwn(shape, name);
  const without = (name: string) => (known(name) ? ignores.includes(name) : !strict);
  const settable = Object.keys(shape).filter((name) => !ignores.includes(name));
  const unknown = fields.filter(([name]) => !known(name));
  // A comparison of names takes time, and nobody misspells so many.
  unknown.forEach((field, at) => {
    if (!strict) checkUnknown(field, at < MOST_NAMED ? settable : []);
  });
  const ignored = fields.filter(([name, value]) => value !== null && without(name)).map(([name]) => name);
  const used = Object.fromEntries(fields.filter(([name]) => known(name) || strict));
  return { used, ignored: ignored.filter((name) => NAME.test(name)).slice(0, MOST_NAMED) };
}
