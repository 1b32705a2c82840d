/** Finds the task of a job. */
import type { z } from 'zod';
import { TASKS } from './index.js';
import type { AnyTask } from './task.js';

/** A task hands its own jobs and results back to itself, so its types may be forgotten in between. */
export const ALL_TASKS: readonly AnyTask[] = TASKS;

const BY_KIND = new Map(ALL_TASKS.map((task) => [task.kind, task]));

/** Undefined: there is no such task. */
export function findTask(kind: string): AnyTask | undefined {
  return BY_KIND.get(kind);
}

/** The task of a job or a result. */
export function taskOf({ kind }: { kind: string }): AnyTask {
  const task = findTask(kind);
  if (task === undefined) throw new Error(`There is no task "${kind}". This is a bug.`);
  return task;
}

type Listed = (typeof TASKS)[number];

/** Any job, told apart by its kind. */
export type TaskJob = z.infer<Listed['stored']['job']>;
export type TaskResult = z.infer<Listed['stored']['result']>;
