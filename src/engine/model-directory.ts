/** Reads a model directory's files beside the weights: the tokenizer and the declared tasks. */
import { z } from 'zod';
import { readJsonFile } from '../files/json-file.js';
import { readModelFile } from '../files/model-file.js';
import { Tokenizer, type TokenizerLimits } from '../text/tokenizer.js';

const tasksSchema = z.object({
  tasks: z.record(z.string(), z.object({ template: z.string(), labels: z.array(z.string()).min(2) })),
});

export type Tasks = z.infer<typeof tasksSchema>['tasks'];

/** The largest published vocabularies, of 262,000 tokens, have files of 33 MB. */
const MOST_TOKENIZER_BYTES = 48 * 1024 ** 2;

/** Returns undefined if the model has no tokenizer.json. */
export async function readTokenizer(model: string, limits: TokenizerLimits): Promise<Tokenizer | undefined> {
  const json = readModelFile(model, 'tokenizer.json', { mostBytes: MOST_TOKENIZER_BYTES });
  return json === undefined ? undefined : new Tokenizer(json, limits);
}

/** Returns the tasks of sida.json, or none if the file does not exist. */
export async function readTasks(model: string): Promise<Tasks> {
  return readJsonFile(model, 'sida.json', tasksSchema, { code: 'checkpoint_invalid' })?.tasks ?? {};
}
