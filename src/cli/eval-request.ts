/** Reads from the flags what `sida eval` should measure. */
import { resolve } from 'node:path';
import type { Tasks } from '../checkpoint/tasks.js';
import { UsageError } from '../config/resolve.js';
import { listOf, number, numbers } from './lists.js';
import { parseJoins } from './trace.js';

export interface EvalRequest {
  data?: { file: string; template: string; labels?: string[]; joins: Record<string, string> };
  text?: string;
  limit?: number;
  maxNewTokens: number;
  /** Experts per token in predicted mode. Absent when the model's defaults apply. */
  ks?: number[];
}

/**
 * Parses the values that commander found, keyed by commander's names. Throws UsageError, or invalid_request for an
 * unknown task.
 */
export function requestOf(values: Record<string, unknown>, tasks: Tasks): EvalRequest {
  const given = (name: string) => (values[name] === undefined ? undefined : String(values[name]));
  if (values.data === undefined && values.text === undefined) {
    throw new UsageError('Nothing to evaluate on: give --data or --text');
  }
  const limit = given('limit');
  return {
    ...(values.data !== undefined && { data: dataOf(given('data')!, values, tasks) }),
    ...(values.text !== undefined && { text: resolve(given('text')!) }),
    ...(limit !== undefined && { limit: number('limit', limit, 1, 1e9) }),
    maxNewTokens: number('max-new-tokens', String(values.maxNewTokens), 1, 1024),
    ...(values.routingK !== undefined && { ks: numbers('routing-k', String(values.routingK), 1, 64) }),
  };
}

function dataOf(file: string, values: Record<string, unknown>, tasks: Tasks): EvalRequest['data'] & object {
  const task = values.task === undefined ? undefined : taskOf(String(values.task), tasks);
  const template = values.template === undefined ? task?.template : String(values.template);
  if (template === undefined) throw new UsageError('--data needs a --template, or a --task of the model');
  const labels = values.labels === undefined ? task?.labels : listOf('labels', String(values.labels));
  if (labels?.length === 1) {
    throw new UsageError(
      `Expected --labels to be two or more labels, found ${JSON.stringify(values.labels)}`,
    );
  }
  return {
    file: resolve(file),
    template,
    joins: parseJoins(values.join as string[] | undefined),
    ...(labels !== undefined && { labels }),
  };
}

function taskOf(name: string, tasks: Tasks): Tasks[string] {
  if (Object.hasOwn(tasks, name)) return tasks[name]!;
  const known = Object.keys(tasks);
  throw new UsageError(
    `The model has no task ${JSON.stringify(name)}; ${known.length === 0 ? 'it declares none' : `it has ${known.join(', ')}`}`,
  );
}
