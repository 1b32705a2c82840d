import { readFile, stat } from 'node:fs/promises';
import type { z } from 'zod';
import { parseJson } from './one-line.js';

/** More than any sound file of settings has; the addon's bound too (native/src/core/json.h). */
const MOST_BYTES = 8 * 1024 ** 2;

/** The value of a file of JSON, of that shape. Throws an Error that says in one line what is wrong. */
export async function readJsonFile<S extends z.ZodType>(path: string, schema: S): Promise<z.infer<S>> {
  const { size } = await stat(path);
  if (size > MOST_BYTES) throw new Error(`too large: expected at most ${MOST_BYTES} bytes, found ${size}`);
  return parseJson(await readFile(path), schema);
}
