/** The tasks that a model declares in sida.json. */
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { MOST_SETTINGS, parseJson } from '../text/one-line.js';
import { Template } from '../text/template.js';
import { isGgufPath } from './gguf/gguf-path.js';
import { readText } from './texts.js';

const task = z.object({
  template: z.string().refine((text) => new Template(text).fields.length > 0, {
    error: 'Expected a field in braces, such as {text}',
  }),
  labels: z
    .array(z.string().min(1))
    .min(2)
    .refine((labels) => new Set(labels).size === labels.length, { error: 'Each label may stand there once' }),
});

const schema = z.object({ tasks: z.record(z.string(), task) });

export type Tasks = z.infer<typeof schema>['tasks'];

/** `path` names the file in errors. Returns no tasks for a model without the file. */
export function parseTasks(json: Buffer | undefined, path: string): Tasks {
  if (json === undefined) return {};
  try {
    return parseJson(json, schema, MOST_SETTINGS).tasks;
  } catch (error) {
    throw new SidaError({ code: 'checkpoint_invalid', message: `${path}: ${(error as Error).message}` });
  }
}

/** The tasks of a directory, or beside a GGUF file, that have not been verified, to check options early. */
export function readTasks(model: string): Tasks {
  const directory = isGgufPath(model) ? dirname(model) : model;
  const json = readText(directory, 'sida.json', 'checkpoint_invalid');
  return parseTasks(json, join(directory, 'sida.json'));
}
