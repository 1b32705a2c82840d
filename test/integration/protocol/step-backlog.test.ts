import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { STEPS_UNREAD, StepBacklog } from '../../../src/protocol/step-backlog.js';

it('counts unread steps', () => {
  const backlog = new StepBacklog();
  for (let i = 0; i < STEPS_UNREAD; i += 1) backlog.add();
  backlog.taken();
  expect(backlog.unread).toBe(STEPS_UNREAD - 1);
  backlog.add();
  expect(new StepBacklog(backlog.buffer).unread).toBe(STEPS_UNREAD);
});

it('keeps a writer from running far ahead of its reader', async () => {
  const backlog = new StepBacklog();
  for (let i = 0; i < STEPS_UNREAD; i += 1) backlog.add();
  // The reader takes a step every 5 ms in another thread, while this thread blocks.
  const reader = new Worker(
    `const { workerData } = require('node:worker_threads');
     const unread = new Int32Array(workerData);
     for (let i = 0; i < 100; i += 1) {
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
       Atomics.sub(unread, 0, 1);
       Atomics.notify(unread, 0);
     }`,
    { eval: true, workerData: backlog.buffer },
  );
  let most = 0;
  for (let i = 0; i < 100; i += 1) {
    backlog.add();
    most = Math.max(most, backlog.unread);
  }
  await new Promise((resolve) => reader.once('exit', resolve));
  expect([most, backlog.unread]).toEqual([STEPS_UNREAD, STEPS_UNREAD]);
});
