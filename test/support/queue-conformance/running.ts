import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { SidaError } from '../../../src/errors.js';
import { eventually } from '../eventually.js';
import { answered, ending, finish, job, type MakeQueue, newId, OWNER, queues } from './harness.js';

/** Tests of order, bounds, cancellation, deadlines and drain. */
export function runningConformance(make: MakeQueue): void {
  const open = queues(make);

  describe('running', () => {
    it('answers each job once with its own answer, waiting and kept jobs alike', async () => {
      const harness = await open({ concurrency: 3 });
      harness.runs((run) => setTimeout(() => finish(run), 1));
      const names = Array.from({ length: 20 }, (_, i) => `job ${i}`);
      const waited = names.map((name) => ending(harness.queue.submit(newId(), job(name))));
      const ids = await Promise.all(names.map((name) => harness.keep(`kept ${name}`)));
      expect(await Promise.all(waited)).toEqual(names);
      for (const [i, id] of ids.entries()) {
        const record = await harness.ended(id);
        expect([record.status, answered(record.result), record.attempts]).toEqual([
          'completed',
          `kept ${names[i]}`,
          1,
        ]);
      }
      expect([...harness.began].sort()).toEqual([...names, ...names.map((name) => `kept ${name}`)].sort());
      expect(harness.engine.mostAtOnce).toBeLessThanOrEqual(3);
    });

    it('starts jobs in the order in which they were accepted', async () => {
      const harness = await open({ concurrency: 1 });
      const names = Array.from({ length: 10 }, (_, i) => `job ${i}`);
      const ids: string[] = [];
      for (const name of names) ids.push(await harness.keep(name));
      harness.finishAll();
      for (const id of ids) await harness.ended(id);
      expect(harness.began).toEqual(names);
    });

    it('lets the job of one owner pass the flood of another, kept jobs too', async () => {
      const harness = await open({ bound: 50, concurrency: 4 });
      const [flood, quiet] = ['b'.repeat(64), 'c'.repeat(64)];
      const ids: string[] = [];
      for (let i = 0; i < 20; i += 1) ids.push(await harness.keep(`flood ${i}`, flood));
      await harness.running('flood 0');
      const kept = await harness.keep('kept', quiet);
      const waited = harness.queue.submit(newId(), job('waited'), { owner: quiet });
      await eventually(() => harness.queue.stats.accepted === 22, 'the jobs');
      const both = () => harness.began.includes('kept') && harness.began.includes('waited');
      // One after the other, so that the flood always holds places.
      while (!both()) {
        finish(harness.engine.runs[0]!);
        await eventually(() => harness.engine.runs.length >= 3, 'the next run');
      }
      expect(harness.began.length).toBeLessThan(10);
      harness.finishAll();
      await waited;
      expect((await harness.ended(kept, quiet)).status).toBe('completed');
      for (const id of ids) expect((await harness.ended(id, flood)).status).toBe('completed');
    });

    it('refuses jobs when its bound is reached, and accepts them again later', async () => {
      const harness = await open({ bound: 2, concurrency: 1 });
      const first = await harness.keep('running');
      await harness.running('running');
      const waiting = [await harness.keep('first'), await harness.keep('second')];
      await eventually(() => harness.queue.stats.waitingSinceMs !== undefined, 'the wait');
      expect(harness.queue.stats.waitingSinceMs).toBeLessThanOrEqual(performance.now());
      const refused = await harness.keep('third').catch((error: SidaError) => error);
      expect(refused).toMatchObject({ code: 'queue_full', details: { limit: 2 } });
      expect((refused as SidaError).details!.retry_after_s).toBeGreaterThanOrEqual(1);
      expect(await ending(harness.queue.submit(newId(), job('fourth')))).toBe('queue_full');
      harness.finishAll();
      for (const id of [first, ...waiting]) expect((await harness.ended(id)).status).toBe('completed');
      expect((await harness.ended(await harness.keep('later'))).status).toBe('completed');
      expect(harness.queue.stats.refused).toBe(2);
    });

    it('refuses jobs when the waiting ones have too many bytes, and takes a large one that waits alone', async () => {
      const harness = await open({ boundBytes: 20_000, concurrency: 1 });
      const first = await harness.keep('running');
      await harness.running('running');
      await eventually(() => harness.queue.stats.active === 1, 'the status');
      const large = await harness.keep('large'.repeat(10_000));
      const refused = await harness.keep('late'.repeat(2_000)).catch((error: SidaError) => error);
      expect(refused).toMatchObject({ code: 'queue_full', details: { limit: 20_000 } });
      expect((refused as SidaError).details!.bytes).toBeGreaterThan(58_000);
      expect(await ending(harness.queue.submit(newId(), job('late'.repeat(2_000))))).toBe('queue_full');
      harness.finishAll();
      for (const id of [first, large]) expect((await harness.ended(id)).status).toBe('completed');
      const later = await harness.keep('later'.repeat(2_000));
      expect((await harness.ended(later)).status).toBe('completed');
    });

    it('passes on the error of a job that cannot run', async () => {
      const harness = await open();
      harness.runs((run) => run.fail('cannot_run'));
      expect(await ending(harness.queue.submit(newId(), job('waited')))).toBe('cannot_run');
      const record = await harness.ended(await harness.keep('kept'));
      expect(record).toMatchObject({ status: 'failed', error: { code: 'cannot_run' }, result: null });
    });
  });

  describe('cancelling', () => {
    it('removes a waiting job, which never runs', async () => {
      const harness = await open({ concurrency: 1 });
      const first = await harness.keep('first');
      await harness.running('first');
      const second = await harness.keep('second');
      expect(await harness.queue.cancel(second, OWNER)).toMatchObject({
        status: 'cancelled',
        error: { code: 'cancelled' },
        startedMs: null,
      });
      harness.finishAll();
      await harness.ended(first);
      await harness.ended(await harness.keep('third'));
      expect(harness.began).toEqual(['first', 'third']);
      expect((await harness.record(second)).status).toBe('cancelled');
    });

    it('ends a running job in the engine, and starts the next one', async () => {
      const harness = await open({ concurrency: 1 });
      const id = await harness.keep('first');
      const run = await harness.running('first');
      const next = await harness.keep('second');
      expect((await harness.queue.cancel(id, OWNER))?.status).toBe('cancelled');
      await eventually(() => run.options.signal.aborted, 'the end of the run');
      harness.finishAll();
      expect((await harness.ended(next)).status).toBe('completed');
      expect((await harness.record(id)).status).toBe('cancelled');
      expect(harness.began).toEqual(['first', 'second']);
    });

    it('does not change a job that has ended', async () => {
      const harness = await open();
      harness.finishAll();
      const done = await harness.ended(await harness.keep('a'));
      expect(await harness.queue.cancel(done.id, OWNER)).toEqual(done);
      const cancelled = await harness.record(await harness.keep('b'));
      await harness.queue.cancel(cancelled.id, OWNER);
      const record = await harness.ended(cancelled.id);
      expect(await harness.queue.cancel(cancelled.id, OWNER)).toEqual(record);
    });

    it('ends a job between a crash and its next run', async () => {
      const harness = await open();
      const id = await harness.keep('a');
      await harness.running('a');
      harness.engine.crash();
      await eventually(async () => (await harness.record(id)).status === 'queued', 'the second wait');
      expect((await harness.queue.cancel(id, OWNER))?.status).toBe('cancelled');
      // A worker on another machine hears of it a moment later.
      await delay(50);
      harness.engine.enter('ready');
      harness.finishAll();
      await harness.ended(await harness.keep('b'));
      expect(harness.began).toEqual(['a', 'b']);
    });

    it('happens when the client of a submitted job disconnects, waiting or running', async () => {
      const harness = await open({ concurrency: 1 });
      const clients = [new AbortController(), new AbortController()];
      const [running, waiting] = clients.map(({ signal }, i) =>
        ending(harness.queue.submit(newId(), job(`job ${i}`), { signal })),
      );
      const run = await harness.running('job 0');
      clients[1]!.abort();
      expect(await waiting).toBe('cancelled');
      clients[0]!.abort();
      expect(await running).toBe('cancelled');
      await eventually(() => run.options.signal.aborted, 'the end of the run');
      const gone = AbortSignal.abort();
      expect(await ending(harness.queue.submit(newId(), job('gone'), { signal: gone }))).toBe('cancelled');
      expect(harness.began).toEqual(['job 0']);
    });
  });

  describe('the deadline', () => {
    it('ends a waiting job, which then never runs', async () => {
      const harness = await open({ concurrency: 1, deadlineMs: 150, keptDeadlineMs: 60_000 });
      await harness.keep('first');
      await harness.running('first');
      expect(await ending(harness.queue.submit(newId(), job('second')))).toBe('deadline_exceeded');
      harness.finishAll();
      await harness.ended(await harness.keep('third'));
      expect(harness.began).toEqual(['first', 'third']);
    });

    it('of kept jobs is separate, and ends a running job in the engine', async () => {
      const harness = await open({ concurrency: 1, deadlineMs: 60_000, keptDeadlineMs: 700 });
      const running = await harness.keep('running');
      const run = await harness.running('running');
      const waiting = await harness.keep('waiting');
      for (const id of [running, waiting]) {
        expect(await harness.ended(id)).toMatchObject({
          status: 'failed',
          error: { code: 'deadline_exceeded' },
        });
      }
      await eventually(() => run.options.signal.aborted, 'the end of the run');
    });
  });

  describe('draining', () => {
    it('refuses new jobs and waits for running ones', async () => {
      const harness = await open();
      const id = await harness.keep('a');
      await harness.running('a');
      const drained = harness.queue.drain(20_000);
      expect(await harness.keep('b').catch((error: SidaError) => error.code)).toBe('shutting_down');
      expect(await ending(harness.queue.submit(newId(), job('c')))).toBe('shutting_down');
      harness.finishAll();
      expect(await drained).toBe(true);
      expect(answered((await harness.record(id)).result)).toBe('a');
      expect(harness.began).toEqual(['a']);
    });

    it('ends the runs when its time is over', async () => {
      const harness = await open();
      const waited = ending(harness.queue.submit(newId(), job('a')));
      const run = await harness.running('a');
      expect(await harness.queue.drain(50)).toBe(false);
      expect(await waited).toBe('shutting_down');
      await eventually(() => run.options.signal.aborted, 'the end of the run');
    });

    it('ends at once when there are no jobs', async () => {
      const harness = await open();
      expect(await harness.queue.drain(20_000)).toBe(true);
    });
  });
}
