import { expect, it } from 'vitest';
import { JobTurns } from '../../../../src/queue/redis/job-turns.js';

it('puts the first job of a quiet owner before the second of a flood', () => {
  const turns = new JobTurns();
  const flood = ['a', 'b', 'c'].map((id) => turns.add(id, 'flood', 1, 1));
  expect(flood).toEqual([1, 2, 3]);
  expect(turns.add('d', 'quiet', 1, 1)).toBe(1);
});

it('gives a late owner the turn that is served now, so that the waiting jobs of others do not starve', () => {
  const turns = new JobTurns();
  for (const id of ['a', 'b', 'c']) turns.add(id, 'flood', 1, 1);
  turns.remove('a');
  turns.remove('b');
  for (let i = 0; i < 5; i += 1) {
    expect(turns.add(`quiet ${i}`, 'quiet', 1, 3)).toBe(3);
    turns.remove(`quiet ${i}`);
  }
});

it('starts again when no job waits, and stays within the priorities of BullMQ', () => {
  const turns = new JobTurns();
  expect(turns.add('a', 'one', 5, 2 ** 21 - 1)).toBe(2 ** 21 - 1);
  expect(turns.add('b', 'one', 7)).toBe(2 ** 21 - 1);
  expect(turns.bytes).toBe(12);
  turns.forget(performance.now() - 1_000);
  expect(turns.bytes).toBe(12);
  turns.forget(performance.now() + 1);
  expect([turns.bytes, turns.add('c', 'one', 1)]).toEqual([0, 1]);
});
