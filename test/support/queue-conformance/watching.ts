import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { JobEvent } from '../../../src/queue/job-queue.js';
import { eventually } from '../eventually.js';
import { joinDeltas } from '../join-deltas.js';
import { completion, delta, finish, job, type MakeQueue, newId, OWNER, queues } from './harness.js';

/** An event as a short text. */
function told(event: JobEvent): string {
  if (event.type === 'delta') return `delta ${event.delta.text} of run ${event.attempt}`;
  if (event.type === 'lost') return 'lost';
  return `${event.record.status} ${event.record.attempts}`;
}

export function watchConformance(make: MakeQueue): void {
  const open = queues(make);

  describe('watching', () => {
    it('reports every status once, in order, to each watcher', async () => {
      const harness = await open({ concurrency: 1 });
      await harness.keep('first');
      const first = await harness.running('first');
      const id = await harness.keep('a');
      const watchers = [await harness.watch(id), await harness.watch(id)];
      finish(first);
      finish(await harness.running('a'));
      const done = await harness.ended(id);
      for (const { events } of watchers) {
        await eventually(() => events.length >= 2, 'the last event');
        await delay(20);
        expect(events.map(told)).toEqual(['running 1', 'completed 1']);
        expect(events.at(-1)).toEqual({ type: 'status', record: done });
      }
    });

    it('reports the deltas of a completion between its statuses', async () => {
      const harness = await open({ concurrency: 1 });
      await harness.keep('first');
      const first = await harness.running('first');
      const { record } = await harness.queue.enqueue(newId(), OWNER, completion('a'));
      const { events } = await harness.watch(record.id);
      finish(first);
      const run = await harness.running('a');
      for (const text of ['one', 'two', 'three']) run.options.onDelta!(delta(text));
      finish(run);
      await harness.ended(record.id);
      await eventually(() => events.length >= 5, 'the last event');
      expect(events.map(told)).toEqual([
        'running 1',
        'delta one of run 1',
        'delta two of run 1',
        'delta three of run 1',
        'completed 1',
      ]);
    });

    it('sends a late watcher the earlier and the later deltas of the run', async () => {
      const harness = await open();
      const { record } = await harness.queue.enqueue(newId(), OWNER, completion('a'));
      const run = await harness.running('a');
      const early = await harness.watch(record.id);
      for (const text of ['one', 'two']) run.options.onDelta!(delta(text));
      await eventually(() => early.events.map(told).includes('delta two of run 1'), 'the second delta');
      const late = await harness.watch(record.id);
      run.options.onDelta!(delta('three'));
      finish(run);
      await harness.ended(record.id);
      await eventually(() => late.events.map(told).includes('completed 1'), 'the last event');
      // A queue may join what was said before.
      expect(joinDeltas(late.events).map(told)).toEqual(['delta onetwothree of run 1', 'completed 1']);
    });

    it('reports a crash as a new run', async () => {
      const harness = await open({ concurrency: 1 });
      await harness.keep('first');
      const first = await harness.running('first');
      const id = await harness.keep('a');
      const { events } = await harness.watch(id);
      finish(first);
      await harness.running('a');
      await harness.crash();
      finish(await harness.running('a'));
      await harness.ended(id);
      await eventually(() => events.map(told).includes('completed 2'), 'the last event');
      // A queue on another machine may not report the short wait between the runs.
      const lasting = events.map(told).filter((event) => event !== 'queued 1');
      expect(lasting).toEqual(['running 1', 'running 2', 'completed 2']);
    });

    it.each(['cancelled', 'failed'] as const)('reports that a job was %s', async (status) => {
      const harness = await open();
      const id = await harness.keep('a');
      const run = await harness.running('a');
      const { events } = await harness.watch(id);
      if (status === 'cancelled') await harness.queue.cancel(id, OWNER);
      else run.fail('cannot_run');
      await eventually(() => events.some((e) => told(e) === `${status} 1`), 'the last event');
      await delay(20);
      expect(events.filter((e) => e.type === 'status' && e.record.status === status)).toHaveLength(1);
    });

    it('reports nothing to a watcher that has stopped, and does not end the job', async () => {
      const harness = await open();
      const { record } = await harness.queue.enqueue(newId(), OWNER, completion('a'));
      const run = await harness.running('a');
      const stopped = await harness.watch(record.id);
      const stays = await harness.watch(record.id);
      run.options.onDelta!(delta('one'));
      await eventually(() => stopped.events.map(told).includes('delta one of run 1'), 'the first delta');
      stopped.stop();
      const seen = stopped.events.length;
      run.options.onDelta!(delta('two'));
      finish(run);
      expect((await harness.ended(record.id)).status).toBe('completed');
      await eventually(() => stays.events.map(told).includes('completed 1'), 'the last event');
      expect(stopped.events).toHaveLength(seen);
    });

    it('reports nothing for a job that has ended, and nothing about other jobs', async () => {
      const harness = await open();
      harness.finishAll();
      const ended = (await harness.ended(await harness.keep('a'))).id;
      const { events } = await harness.watch(ended);
      const other = await harness.queue.enqueue(newId(), OWNER, job('b'));
      await harness.ended(other.record.id);
      await delay(20);
      expect(events).toEqual([]);
    });
  });
}
