/** Makes text of untrusted files safe for messages: one line, without characters that could mislead a reader. */
import type { z } from 'zod';
import { passedBound } from './json-bounds.js';
import { visible } from './visible.js';

const MOST = 300;
/** More levels than any valid file has. A million levels would take seconds and hundreds of megabytes to parse. */
const DEPTH = 64;

/** Escapes invisible characters, and cuts the text after `most` characters. */
export function oneLine(text: string, most = MOST): string {
  const shown = visible(text.slice(0, most));
  return text.length > most ? `${shown}… (${text.length} characters)` : shown;
}

/** Several times the values of the largest manifests. Checking a value may take kilobytes when it is wrong. */
export const MOST_SETTINGS = 10_000;

/** The first fault of a value, with its path. */
function firstIssue({ issues }: z.ZodError): string {
  const { path, message } = issues[0]!;
  return oneLine(path.length > 0 ? `${path.join('.')}: ${message}` : message);
}

/** Parses the bytes of a JSON file and checks them against `schema`. Throws an Error with one line. */
export function parseJson<S extends z.ZodType>(
  json: Buffer,
  schema: S,
  mostValues = Number.POSITIVE_INFINITY,
): z.infer<S> {
  // Check the depth before decoding the bytes, so that a refused file is not in memory twice.
  const passed = passedBound(json, { depth: DEPTH, fields: mostValues, commas: mostValues });
  if (passed === 'depth') throw new Error(`nested deeper than ${DEPTH} levels`);
  if (passed !== undefined) throw new Error(`expected at most ${mostValues} values, found more`);
  let value: unknown;
  try {
    value = JSON.parse(json.toString('utf8'));
  } catch (error) {
    throw new Error(oneLine((error as Error).message));
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Error(firstIssue(parsed.error));
  return parsed.data;
}
