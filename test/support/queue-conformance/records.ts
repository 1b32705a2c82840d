import { describe, expect, it } from 'vitest';
import {
  answered,
  completion,
  finish,
  job,
  type MakeQueue,
  newId,
  OWNER,
  queues,
  resultOf,
} from './harness.js';

/** Tests of the records of kept jobs, and of their owners. */
export function recordConformance(make: MakeQueue): void {
  const open = queues(make);

  describe('a record', () => {
    it('changes from queued to running to completed, with times in order', async () => {
      const harness = await open({ concurrency: 1 });
      await harness.keep('first');
      const first = await harness.running('first');
      const before = Date.now();
      const { record, created } = await harness.queue.enqueue(newId(), OWNER, job('a'));
      const { id } = record;
      expect(created).toBe(true);
      const waiting = {
        id,
        kind: 'classify',
        status: 'queued',
        form: { experts: false },
        createdMs: expect.any(Number),
        startedMs: null,
        finishedMs: null,
        attempts: 0,
        result: null,
        error: null,
      };
      expect(record).toEqual(waiting);
      expect(await harness.record(id)).toEqual(waiting);
      finish(first);
      const run = await harness.running('a');
      const running = await harness.record(id);
      expect(running).toEqual({
        ...waiting,
        status: 'running',
        attempts: 1,
        startedMs: expect.any(Number),
      });
      finish(run);
      const done = await harness.ended(id);
      expect(done).toEqual({
        ...running,
        status: 'completed',
        finishedMs: expect.any(Number),
        result: resultOf(job('a')),
      });
      expect(done.createdMs).toBeGreaterThanOrEqual(before - 1_000);
      expect(done.startedMs!).toBeGreaterThanOrEqual(done.createdMs);
      expect(done.finishedMs!).toBeGreaterThanOrEqual(done.startedMs!);
    });

    it('keeps the requested form of the answer', async () => {
      const harness = await open();
      harness.finishAll();
      const request = { ...completion('a'), logprobs: 3, showTokenIds: true, explain: true };
      const { record } = await harness.queue.enqueue(newId(), OWNER, request);
      const form = { logprobs: 3, tokenIds: true, experts: true };
      expect((await harness.ended(record.id)).form).toEqual(form);
    });

    it('is not found under an unknown id', async () => {
      const { queue } = await open();
      const id = newId();
      expect(await queue.find(id, OWNER)).toBeUndefined();
      expect(await queue.cancel(id, OWNER)).toBeUndefined();
      expect(await queue.watch(id, OWNER, () => undefined)).toBeUndefined();
    });

    it('is not visible to another owner, whose calls change nothing', async () => {
      const harness = await open();
      const id = await harness.keep('a');
      await harness.running('a');
      for (const other of ['', 'b'.repeat(64)]) {
        expect(await harness.queue.find(id, other)).toBeUndefined();
        expect(await harness.queue.cancel(id, other)).toBeUndefined();
        expect(await harness.queue.watch(id, other, () => undefined)).toBeUndefined();
      }
      harness.finishAll();
      expect(answered((await harness.ended(id)).result)).toBe('a');
    });
  });
}
