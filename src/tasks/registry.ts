/** Finds the task of a job or a result. */
import type { z } from 'zod';
import { TASKS } from './index.js';
import type { AnyTask } from './task.js';

/** The types may be erased here, because a task receives only its own jobs and results. */
export const ALL_TASKS: readonly AnyTask[] = TASKS;

const BY_KIND = new Map(ALL_TASKS.map((task) => [task.kind, task]));

/** Returns undefined if there is no such task. */
export function findTask(kind: string): AnyTask | undefined {
  return BY_KIND.get(kind);
}

/** Returns the task of a job or a result. Throws if there is none. */
export function taskOf({ kind }: { kind: string }): AnyTask {
  const task = findTask(kind);
  if (task === undefined) throw new Error(`There is no task "${kind}". This is a bug.`);
  return task;
}

type Listed = (typeof TASKS)[number];

/** Any job, discriminated by its kind. */
export type TaskJob = z.infer<Listed['stored']['job']>;
export type TaskResult = z.infer<Listed['stored']['result']>;
