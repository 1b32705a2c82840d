/** Makes text of untrusted files safe for messages: one line, without characters that could mislead a reader. */
import type { z } from 'zod';
import { shapeFault } from './json-shape.js';
import { checkAgainst } from './schema-faults.js';
import { visible } from './visible.js';

const MOST = 300;
/** More levels than any valid file has. A million levels would take seconds and hundreds of megabytes to parse. */
const DEPTH = 64;

/** What `JSON.parse` quotes of a text, at the end of its message. */
const QUOTED_BY_V8 = /, (\.\.\.)?".*is not valid JSON$/s;

/** Escapes invisible characters, and cuts the text after `most` characters. */
export function oneLine(text: string, most = MOST): string {
  const shown = visible(text.slice(0, most));
  return text.length > most ? `${shown}… (${text.length} characters)` : shown;
}

/** Several times the values of the largest manifests. Checking a value may take kilobytes when it is wrong. */
export const MOST_SETTINGS = 10_000;

/**
 * Parses the bytes of a JSON file and checks them against `schema`. Throws an Error with one line; when the file is
 * `secret`, the line has nothing of the text around a fault of JSON.
 */
export function parseJson<S extends z.ZodType>(
  json: Buffer,
  schema: S,
  mostValues = Number.POSITIVE_INFINITY,
  { secret = false } = {},
): z.infer<S> {
  // Check the shape before decoding the bytes, so that a refused file is not in memory twice.
  const fault = shapeFault(json, { depth: DEPTH, fields: mostValues, commas: mostValues });
  if (fault?.kind === 'duplicate')
    throw new Error(oneLine(`${fault.path.join('.')}: the key is there twice`));
  if (fault?.kind === 'depth') throw new Error(`nested deeper than ${DEPTH} levels`);
  if (fault !== undefined) throw new Error(`expected at most ${mostValues} values, found more`);
  let value: unknown;
  try {
    value = JSON.parse(json.toString('utf8'));
  } catch (error) {
    const { message } = error as Error;
    throw new Error(oneLine(secret ? message.replace(QUOTED_BY_V8, ' is not valid JSON') : message));
  }
  const checked = checkAgainst(schema, value);
  if ('data' in checked) return checked.data;
  const { path, message } = checked.fault;
  throw new Error(oneLine(path.length > 0 ? `${path.join('.')}: ${message}` : message));
}
