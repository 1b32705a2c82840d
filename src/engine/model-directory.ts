/** Reads a model directory's files beside the weights: the tokenizer and the declared tasks. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isMissing, SidaError } from '../errors.js';
import { readJsonFile } from '../text/json-file.js';
import { Tokenizer, type TokenizerLimits } from '../text/tokenizer.js';

const tasksSchema = z.object({
  tasks: z.record(z.string(), z.object({ template: z.string(), labels: z.array(z.string()).min(2) })),
});

export type Tasks = z.infer<typeof tasksSchema>['tasks'];

/** Returns undefined if the model has no tokenizer.json. */
export async function readTokenizerJson(model: string): Promise<Buffer | undefined> {
  const path = join(model, 'tokenizer.json');
  try {
    return await readFile(path);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw invalid(`${path}: ${(error as Error).message}`);
  }
}

/** Returns undefined if the model has no tokenizer.json. */
export async function readTokenizer(model: string, limits: TokenizerLimits): Promise<Tokenizer | undefined> {
  const json = await readTokenizerJson(model);
  return json && new Tokenizer(json, limits);
}

/** Returns the tasks of sida.json, or none if the file does not exist. */
export async function readTasks(model: string): Promise<Tasks> {
  const path = join(model, 'sida.json');
  try {
    return (await readJsonFile(path, tasksSchema)).tasks;
  } catch (error) {
    if (isMissing(error)) return {};
    throw invalid(`${path}: ${(error as Error).message}`);
  }
}

function invalid(message: string): SidaError {
  return new SidaError({ code: 'checkpoint_invalid', message });
}
