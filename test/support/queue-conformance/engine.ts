import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobResult } from '../../../src/protocol/engine-messages.js';
import { hasEnded, type JobQueue, type JobRecord } from '../../../src/queue/job-queue.js';
import type { TaskJob, TaskResult } from '../../../src/tasks/registry.js';
import { eventually } from '../eventually.js';
import { newId, OWNER } from './harness.js';

interface EngineQueueUnderTest {
  queue: JobQueue;
  /** Runs a job in the same engine without the queue. */
  run(request: TaskJob): Promise<JobResult>;
  /** Kills the engine process, which restarts by itself. */
  kill(): void;
  close(): Promise<void>;
}

const SENTENCES = ['a fine film', 'dreadful and boring', 'it is what it is', 'charming , but far too long'];

const REQUESTS: TaskJob[] = [
  ...SENTENCES.map(
    (text): TaskJob => ({
      kind: 'classify',
      inputs: [`sst2 sentence: ${text}`, text],
      labels: ['negative', 'positive'],
    }),
  ),
  { kind: 'complete', prompts: SENTENCES, maxTokens: 24, stop: [], logprobs: 1, stream: false },
  {
    kind: 'complete',
    prompts: SENTENCES,
    choices: 2,
    maxTokens: 12,
    sampling: { temperature: 1, topP: 0.95, topK: 0, minP: 0, seed: 7 },
    stop: [],
    logprobs: null,
    stream: false,
  },
];

const STREAM: TaskJob = {
  kind: 'complete',
  prompts: ['The film was <extra_id_0>.'],
  maxTokens: 300,
  stop: [],
  logprobs: null,
  stream: true,
};

/** Never ends by itself, so that a fast machine does not answer before the cancellation arrives. */
const END_OF_TEXT = 1;
const LONG: TaskJob = {
  ...STREAM,
  maxTokens: 600,
  adjustments: { presence: 0, frequency: 0, repetition: 1, biases: [[END_OF_TEXT, -100]] },
};

/** The part of a result that must not depend on the run: the answer without its cost and its durations. */
function answer(given: JobResult | null): unknown {
  if (given === null) return null;
  const result = given as TaskResult;
  if ('choices' in result) return result.choices;
  return 'data' in result ? result.data : result;
}

/** Tests of a queue with a real engine and the bundled model. */
export function engineConformance(name: string, make: () => Promise<EngineQueueUnderTest>): void {
  describe(name, () => {
    let open: EngineQueueUnderTest;
    let golden: unknown[];
    beforeAll(async () => {
      open = await make();
      golden = (await Promise.all(REQUESTS.map(open.run))).map(answer);
    });
    afterAll(() => open.close());

    const ended = async (queue: JobQueue, id: string): Promise<JobRecord> => {
      let record: JobRecord | undefined;
      await eventually(async () => {
        record = await queue.find(id, OWNER);
        return record !== undefined && hasEnded(record);
      }, `the end of ${id}`);
      return record!;
    };

    it('returns the answers of the engine to waiting clients and for kept jobs', async () => {
      const { queue } = open;
      const waited = REQUESTS.map((request) => queue.submit(newId(), request));
      const kept = await Promise.all(REQUESTS.map((request) => queue.enqueue(newId(), OWNER, request)));
      expect((await Promise.all(waited)).map(({ result }) => answer(result))).toEqual(golden);
      const records = await Promise.all(kept.map(({ record }) => ended(queue, record.id)));
      expect(records.map(({ result }) => answer(result))).toEqual(golden);
    });

    it('returns right answers after a kill -9 of the engine', async () => {
      const { queue, kill } = open;
      const kept = await Promise.all(REQUESTS.map((request) => queue.enqueue(newId(), OWNER, request)));
      kill();
      const records = await Promise.all(kept.map(({ record }) => ended(queue, record.id)));
      expect(records.map(({ status }) => status)).toEqual(REQUESTS.map(() => 'completed'));
      expect(records.map(({ result }) => answer(result))).toEqual(golden);
    });

    it('reports the deltas of a completion, which add up to its answer', async () => {
      const { queue } = open;
      const { record } = await queue.enqueue(newId(), OWNER, STREAM);
      const deltas: string[] = [];
      let last: JobRecord | undefined;
      await queue.watch(record.id, OWNER, (event) => {
        if (event.type === 'delta') deltas.push(event.delta.text);
        else if (event.type === 'status') last = event.record;
      });
      await eventually(() => last !== undefined && hasEnded(last), 'the last event');
      const result = last!.result as TaskResult;
      expect(result.kind === 'complete' && result.choices[0]!.text).toBe(deltas.join(''));
      expect(deltas.length).toBeGreaterThan(1);
    });

    it('cancels a running completion, and the next answers are right', async () => {
      const { queue } = open;
      /** Cancels a job at its first delta. On a busy machine the job may end before the delta arrives. */
      const cancelRunning = async () => {
        const { record } = await queue.enqueue(newId(), OWNER, LONG);
        let deltas = 0;
        await queue.watch(record.id, OWNER, ({ type }) => {
          if (type === 'delta') deltas += 1;
        });
        await eventually(() => deltas > 0, 'the first delta');
        return (await queue.cancel(record.id, OWNER))!;
      };
      let record = await cancelRunning();
      for (let tries = 1; tries < 10 && record.status === 'completed'; tries += 1)
        record = await cancelRunning();
      expect(record.status).toBe('cancelled');
      const { record: next } = await queue.enqueue(newId(), OWNER, REQUESTS[0]!);
      expect(answer((await ended(queue, next.id)).result)).toEqual(golden[0]);
      expect((await queue.find(record.id, OWNER))?.status).toBe('cancelled');
    });
  });
}
