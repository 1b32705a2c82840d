import { expect, it } from 'vitest';
import { ALL_TASKS, findTask, taskOf } from '../../../src/tasks/registry.js';

it('gives each task a unique kind, path and job type', () => {
  const names = [
    ALL_TASKS.map(({ kind }) => kind),
    ALL_TASKS.map(({ route }) => route.path),
    ALL_TASKS.map(({ jobType }) => jobType).filter((type) => type !== undefined),
  ];
  for (const list of names) expect(new Set(list).size).toBe(list.length);
});

it('finds a task by its kind, and none for an unknown kind', () => {
  for (const task of ALL_TASKS) expect(findTask(task.kind)).toBe(task);
  expect(findTask('__proto__')).toBeUndefined();
  expect(() => taskOf({ kind: 'dream' })).toThrow(/no task "dream".*bug/);
});
