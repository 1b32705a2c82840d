import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JobRecord } from '../../../src/queue/job-queue.js';
import { hasEnded } from '../../../src/queue/job-queue.js';
import { eventually } from '../eventually.js';
import { joinDeltas } from '../join-deltas.js';
import {
  answered,
  completion,
  delta,
  ending,
  finish,
  job,
  type MakeQueue,
  nameOf,
  newId,
  OWNER,
  queues,
} from './harness.js';

/** Tests of retries after a crash and of quarantine. No job may be lost or end twice. */
export function crashConformance(make: MakeQueue, sequences: number): void {
  const open = queues(make);

  describe('a crash of the engine', () => {
    it('retries the jobs in flight, and each job has one answer', async () => {
      const harness = await open({ concurrency: 3 });
      const waited = ending(harness.queue.submit(newId(), job('waited')));
      const kept = await harness.keep('kept');
      await harness.running('waited');
      await harness.running('kept');
      harness.runs(finish);
      await harness.crash();
      expect(await waited).toBe('waited');
      const record = await harness.ended(kept);
      expect([answered(record.result), record.attempts]).toEqual(['kept', 2]);
      expect([...harness.began].sort()).toEqual(['kept', 'kept', 'waited', 'waited']);
      expect(harness.queue.stats.retried).toBe(2);
    });

    it('restarts the deltas of a kept job with the number of the new run', async () => {
      const harness = await open();
      const { record } = await harness.queue.enqueue(newId(), OWNER, completion('a'));
      const { events } = await harness.watch(record.id);
      (await harness.running('a')).options.onDelta!(delta('one'));
      await eventually(() => events.some(({ type }) => type === 'delta'), 'the first delta');
      await harness.crash();
      const again = await harness.running('a');
      again.options.onDelta!(delta('one'));
      again.options.onDelta!(delta('two'));
      const deltas = () => events.flatMap((e) => (e.type === 'delta' ? [[e.attempt, e.delta.text]] : []));
      await eventually(() => deltas().length === 3, 'the last delta');
      const late = await harness.watch(record.id);
      harness.finishAll();
      expect((await harness.ended(record.id)).status).toBe('completed');
      await eventually(() => late.events.some(({ type }) => type === 'status'), 'the last event');
      expect(
        joinDeltas(late.events).map((e) =>
          e.type === 'delta' ? `${e.attempt} ${e.delta.text}` : e.type === 'status' && e.record.status,
        ),
      ).toEqual(['2 onetwo', 'completed']);
      expect(deltas()).toEqual([
        [1, 'one'],
        [2, 'one'],
        [2, 'two'],
      ]);
    });

    it('does not run a job again whose waiting client has received deltas', async () => {
      const harness = await open();
      const deltas: string[] = [];
      const onDelta = ({ text }: { text: string }) => void deltas.push(text);
      const told = ending(harness.queue.submit(newId(), completion('told'), { onDelta }));
      const untold = ending(harness.queue.submit(newId(), completion('untold'), { onDelta }));
      (await harness.running('told')).options.onDelta!(delta('one'));
      await harness.running('untold');
      await eventually(() => deltas.length === 1, 'the delta');
      harness.runs(finish);
      await harness.crash();
      expect(await told).toBe('engine_crashed');
      expect(await untold).toBe('an answer');
      expect(deltas).toEqual(['one']);
      expect(harness.began.sort()).toEqual(['told', 'untold', 'untold']);
    });

    it('fails the job that causes it every time, and completes the others', async () => {
      const harness = await open({ concurrency: 4, attempts: 5 });
      const { engine } = harness;
      // The engine restarts by itself, and crashes shortly after it starts the poison job.
      harness.runs((run) => {
        setTimeout(() => {
          if (!engine.runs.includes(run)) return;
          if (nameOf(run.request) !== 'poison') setTimeout(() => finish(run), 20);
          else void harness.crash();
        }, 5);
      });
      const others = ['a', 'b', 'c'];
      const ids = await Promise.all(others.map((name) => harness.keep(name)));
      const poison = await harness.keep('poison');
      expect(await harness.ended(poison)).toMatchObject({
        status: 'failed',
        error: { code: 'engine_crashed' },
      });
      for (const [i, id] of ids.entries()) {
        expect(answered((await harness.ended(id)).result)).toBe(others[i]);
      }
      const runs = harness.began.filter((name) => name === 'poison').length;
      expect(runs).toBeGreaterThanOrEqual(2);
      expect(runs).toBeLessThanOrEqual(5);
      expect(harness.queue.stats.quarantined).toBe(1);
    });
  });

  type Step = 'keep' | 'finish' | 'fail' | 'crash' | 'ready' | 'cancel';

  it('ends every kept job exactly once after any sequence of events', async () => {
    const steps = fc.array(
      fc.constantFrom<Step>('keep', 'keep', 'finish', 'fail', 'crash', 'ready', 'cancel'),
      { maxLength: 40 },
    );
    await fc.assert(
      fc.asyncProperty(steps, async (sequence) => {
        const harness = await open({ concurrency: 3, attempts: 100 });
        const { engine, queue } = harness;
        const ids: string[] = [];
        const ends = new Map<string, JobRecord[]>();
        let toCancel = 0;
        for (const step of sequence) {
          if (step === 'keep') {
            const id = await harness.keep(`job ${ids.length}`);
            ids.push(id);
            const seen: JobRecord[] = [];
            ends.set(id, seen);
            await queue.watch(id, OWNER, (event) => {
              if (event.type === 'status' && hasEnded(event.record)) seen.push(event.record);
            });
          } else if (step === 'finish') {
            if (engine.runs[0] !== undefined) finish(engine.runs[0]);
          } else if (step === 'fail') engine.runs[0]?.fail('cannot_run');
          else if (step === 'crash') engine.crash();
          else if (step === 'ready') engine.enter('ready');
          else if (toCancel < ids.length) await queue.cancel(ids[toCancel++]!, OWNER);
          await delay(0);
          expect(engine.runs.length).toBeLessThanOrEqual(3);
        }
        harness.finishAll();
        engine.enter('ready');
        for (const [i, id] of ids.entries()) {
          const record = await harness.ended(id);
          if (record.status === 'completed') expect(answered(record.result)).toBe(`job ${i}`);
          else expect(['cancelled', 'cannot_run', 'engine_crashed']).toContain(record.error!.code);
          await eventually(() => ends.get(id)!.length > 0, 'the last event');
          expect(ends.get(id)).toEqual([record]);
        }
        expect(engine.runs).toEqual([]);
        await harness.close();
      }),
      { numRuns: sequences },
    );
  });
}
