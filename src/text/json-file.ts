import { readFile, stat } from 'node:fs/promises';
import type { z } from 'zod';
import { parseJson } from './one-line.js';

/** Larger than any valid file of settings. The addon has the same limit (native/src/core/json.h). */
const MOST_BYTES = 8 * 1024 ** 2;

/** Reads a JSON file and checks it against `schema`. Throws an Error that says in one line what is wrong. */
export async function readJsonFile<S extends z.ZodType>(path: string, schema: S): Promise<z.infer<S>> {
  const { size } = await stat(path);
  if (size > MOST_BYTES) throw new Error(`too large: expected at most ${MOST_BYTES} bytes, found ${size}`);
  return parseJson(await readFile(path), schema);
}
