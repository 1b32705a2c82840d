/** Makes text of untrusted files safe for messages: one line, without characters that could mislead a reader. */
import type { z } from 'zod';
import { shapeFault } from './json-shape.js';
import { checkAgainst } from './schema-faults.js';

const MOST = 300;
/** More levels than any valid file has. A million levels would take seconds and hundreds of megabytes to parse. */
const DEPTH = 64;
// Control characters, bidi and other invisible characters, and lone surrogates.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Escapes invisible characters, and cuts the text after `most` characters. */
export function oneLine(text: string, most = MOST): string {
  const shown = text.slice(0, most).replace(INVISIBLE, (character) => {
    return `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`;
  });
  return text.length > most ? `${shown}… (${text.length} characters)` : shown;
}

/** Parses the bytes of a JSON file and checks them against `schema`. Throws an Error with one line. */
export function parseJson<S extends z.ZodType>(json: Buffer, schema: S): z.infer<S> {
  // Check the shape before decoding the bytes, so that a refused file is not in memory twice.
  const fault = shapeFault(json, { depth: DEPTH, fields: Number.POSITIVE_INFINITY });
  if (fault?.kind === 'duplicate')
    throw new Error(oneLine(`${fault.path.join('.')}: the key is there twice`));
  if (fault !== undefined) throw new Error(`nested deeper than ${DEPTH} levels`);
  let value: unknown;
  try {
    value = JSON.parse(json.toString('utf8'));
  } catch (error) {
    throw new Error(oneLine((error as Error).message));
  }
  const checked = checkAgainst(schema, value);
  if ('data' in checked) return checked.data;
  const { path, message } = checked.fault;
  throw new Error(oneLine(path.length > 0 ? `${path.join('.')}: ${message}` : message));
}
