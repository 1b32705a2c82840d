import { join } from 'node:path';
import type { z } from 'zod';
import { type ErrorCode, SidaError } from '../errors.js';
import { MOST_SETTINGS, parseJson } from '../text/one-line.js';
import { readModelFile } from './model-file.js';

/** Larger than any valid file of settings. The addon has the same limit (native/src/core/json.h). */
const MOST_BYTES = 8 * 1024 ** 2;

/**
 * Reads a JSON file of a model, a predictor or a trace and checks it against `schema`. Returns undefined when there is
 * no such file. Throws an error of `code` that says in one line what is wrong, and what to do if `hint` says so.
 */
export function readJsonFile<S extends z.ZodType>(
  directory: string,
  name: string,
  schema: S,
  { code, hint, mostValues = MOST_SETTINGS }: { code: ErrorCode; hint?: string; mostValues?: number },
): z.infer<S> | undefined {
  const json = readModelFile(directory, name, { code, mostBytes: MOST_BYTES });
  if (json === undefined) return undefined;
  try {
    return parseJson(json, schema, mostValues);
  } catch (error) {
    const message = `${join(directory, name)}: ${(error as Error).message}`;
    throw new SidaError({ code, message: hint === undefined ? message : `${message}; ${hint}` });
  }
}
