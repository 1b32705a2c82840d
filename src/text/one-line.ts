/** Text of a foreign file within a message: one line, without what a terminal or a reader could be fooled by. */
import type { z } from 'zod';
import { passedBound } from './json-bounds.js';

const MOST = 300;
/** More than any sound file has; a million would take seconds and hundreds of megabytes. */
const DEPTH = 64;
// Control and bidi characters, other invisible ones and lone surrogates.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Cut after `most` characters. */
export function oneLine(text: string, most = MOST): string {
  const shown = text.slice(0, most).replace(INVISIBLE, (character) => {
    return `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`;
  });
  return text.length > most ? `${shown}… (${text.length} characters)` : shown;
}

/** What is wrong with a value first, and where in it. */
function firstIssue({ issues }: z.ZodError): string {
  const { path, message } = issues[0]!;
  return oneLine(path.length > 0 ? `${path.join('.')}: ${message}` : message);
}

/** The value of a JSON file's bytes, of that shape. Throws an Error that says in one line what is wrong. */
export function parseJson<S extends z.ZodType>(json: Buffer, schema: S): z.infer<S> {
  // Before there is a string: a large file that is refused is in memory once.
  if (passedBound(json, { depth: DEPTH, fields: Number.POSITIVE_INFINITY }) !== undefined) {
    throw new Error(`nested deeper than ${DEPTH} levels`);
  }
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
