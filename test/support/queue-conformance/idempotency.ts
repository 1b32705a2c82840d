import { describe, expect, it } from 'vitest';
import type { SidaError } from '../../../src/errors.js';
import type { Accepted } from '../../../src/queue/job-queue.js';
import { answered, type Harness, job, type MakeQueue, newId, OWNER, queues } from './harness.js';

export function idempotencyConformance(make: MakeQueue): void {
  const open = queues(make);
  /** Enqueues a job under an idempotency key. Its name serves as the digest of the request. */
  const enqueue = (harness: Harness, name: string, key: string, owner = OWNER): Promise<Accepted> =>
    harness.queue.enqueue(newId(), owner, job(name), { key, digest: name });

  describe('an idempotency key', () => {
    it('makes one job of 100 concurrent requests, and all get its answer', async () => {
      const harness = await open();
      const key = newId();
      const accepted = await Promise.all(Array.from({ length: 100 }, () => enqueue(harness, 'a', key)));
      expect(accepted.filter(({ created }) => created)).toHaveLength(1);
      expect(new Set(accepted.map(({ record }) => record.id)).size).toBe(1);
      harness.finishAll();
      const answers = await Promise.all(accepted.map(({ record }) => harness.ended(record.id)));
      for (const answer of answers) expect(answer).toEqual(answers[0]);
      expect(answered(answers[0]!.result)).toBe('a');
      expect(harness.began).toEqual(['a']);
    });

    it('refuses a different request with the same key, and keeps the first', async () => {
      const harness = await open();
      const key = newId();
      const { record } = await enqueue(harness, 'a', key);
      const refused = await enqueue(harness, 'b', key).catch((error: SidaError) => error.code);
      expect(refused).toBe('idempotency_conflict');
      harness.finishAll();
      await harness.ended(record.id);
      expect(await enqueue(harness, 'b', key).catch((error: SidaError) => error.code)).toBe(
        'idempotency_conflict',
      );
      expect(harness.began).toEqual(['a']);
    });

    it('belongs to its owner', async () => {
      const harness = await open();
      harness.finishAll();
      const key = newId();
      const mine = await enqueue(harness, 'mine', key);
      const other = await enqueue(harness, 'other', key, 'b'.repeat(64));
      expect([mine.created, other.created]).toEqual([true, true]);
      expect(answered((await harness.ended(mine.record.id)).result)).toBe('mine');
      expect(answered((await harness.ended(other.record.id, 'b'.repeat(64))).result)).toBe('other');
    });

    it('returns the record of a job that has ended, even when the queue is full', async () => {
      const harness = await open({ bound: 1, concurrency: 1 });
      const key = newId();
      const { record } = await enqueue(harness, 'a', key);
      (await harness.running('a')).fail('cannot_run');
      const failed = await harness.ended(record.id);
      await harness.keep('running');
      await harness.running('running');
      await harness.keep('waiting');
      expect(await enqueue(harness, 'a', key)).toEqual({ record: failed, created: false });
      expect(await enqueue(harness, 'c', newId()).catch((error: SidaError) => error.code)).toBe('queue_full');
      expect(harness.began).toEqual(['a', 'running']);
    });

    it('can be looked up by its owner, with the request that it came with', async () => {
      const harness = await open({ bound: 1, concurrency: 1 });
      const { queue } = harness;
      const key = newId();
      const { record } = await enqueue(harness, 'a', key);
      await harness.running('a');
      await harness.keep('waiting');
      expect((await queue.repeated(OWNER, { key, digest: 'a' }))?.id).toBe(record.id);
      const conflict = queue.repeated(OWNER, { key, digest: 'b' }).catch((error: SidaError) => error.code);
      expect(await conflict).toBe('idempotency_conflict');
      expect(await queue.repeated('b'.repeat(64), { key, digest: 'a' })).toBeUndefined();
      expect(await queue.repeated(OWNER, { key: newId(), digest: 'a' })).toBeUndefined();
      expect(queue.stats.kept).toMatchObject({ repeated: 1, conflicts: 1 });
    });

    it('of a cancelled job does not run it again', async () => {
      const harness = await open();
      const key = newId();
      const { record } = await enqueue(harness, 'a', key);
      await harness.running('a');
      await harness.queue.cancel(record.id, OWNER);
      const again = await enqueue(harness, 'a', key);
      expect([again.created, again.record.status]).toEqual([false, 'cancelled']);
      expect(harness.began).toEqual(['a']);
    });
  });
}
