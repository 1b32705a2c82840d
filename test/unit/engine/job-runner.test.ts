import { readFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { clockMs } from '../../../src/clock.js';
import { JobRunner } from '../../../src/engine/job-runner.js';
import type { Encoder } from '../../../src/engine/tokenizer-link.js';
import type { FromEngine } from '../../../src/protocol/engine-messages.js';
import type { JobEnd, PreparedRequest, ToInference } from '../../../src/protocol/inference-messages.js';
import type { TaskJob, TaskResult } from '../../../src/tasks/registry.js';
import { Tokenizer } from '../../../src/text/tokenizer.js';
import { plainEncoder } from '../../support/plain-encoder.js';
import { newQuoter } from '../../support/quoter.js';
import { SHAPE } from '../scheduler/scripted-native-engine.js';

const miniDirectory = new URL('../../../models/switch-mini/', import.meta.url).pathname;
const mini = new Tokenizer(readFileSync(`${miniDirectory}tokenizer.json`), {
  vocabSize: 8000,
  maxInputBytes: 1000,
});

const job = (request: TaskJob): TaskJob => request;

function bench(own: Partial<Encoder> = {}) {
  const encoder = { ...plainEncoder(mini), ...own };
  const sent: FromEngine[] = [];
  const items: PreparedRequest[] = [];
  const cancelled: number[] = [];
  const control: ToInference[] = [];
  const jobs = new JobRunner({
    prefixCache: 'per-key',
    quoter: newQuoter(),
    limits: {
      shape: { ...SHAPE, vocabSize: 8000 },
      maxBatchTokens: 64,
      contextTokens: 128,
      kvPages: 8,
      kvPageTokens: 16,
      kvWindows: [],
      maxInputBytes: 1000,
      texts: mini,
      routing: { mode: 'exact', k: 1, predictor: false },
    },
    encoder,
    batches: {
      add: (added) => items.push(...added),
      cancel: (job) => {
        cancelled.push(job);
        return 7 + job;
      },
    },
    toInference: (message) => control.push(message),
    send: (message) => sent.push(message),
  });
  return { sent, items, cancelled, control, jobs };
}

const cost = {
  needed: 1,
  resident: 1,
  prefetched: 0,
  late: 0,
  on_demand: 0,
  peer: 0,
  cpu: 0,
  loaded: 0,
  bytes: 0,
  stall_ms: 0,
  predicted: 0,
  hits_top1: 0,
  hits_top3: 0,
};
const end: JobEnd = { cost, startedMs: 2, endedMs: 5 };
const complete = (more: Partial<Extract<TaskJob, { kind: 'complete' }>> = {}): TaskJob => {
  return {
    kind: 'complete',
    prompts: ['hello'],
    maxTokens: 3,
    stop: [],
    logprobs: null,
    stream: false,
    ...more,
  };
};

describe('jobs', () => {
  it('answers a classification with softmax scores, and picks the first label on ties', () => {
    const { sent, items, jobs } = bench();
    jobs.start(
      'a',
      job({
        kind: 'classify',
        inputs: ['fine', 'dull film'],
        labels: ['negative', '__proto__'],
      }),
    );
    expect(items.map(({ item, job, jobItems }) => [item, job, jobItems])).toEqual([
      [0, 0, 2],
      [1, 0, 2],
    ]);
    jobs.onInference({ type: 'done', item: 1, job: 0, scores: [Math.log(0.1), Math.log(0.3)] });
    jobs.onInference({ type: 'done', item: 0, job: 0, scores: [-1, -1], end });
    const result = (sent[0] as Extract<FromEngine, { type: 'result' }>).result as TaskResult;
    expect(result).toMatchObject({
      kind: 'classify',
      experts: cost,
      timing: { inferenceMs: 3 },
      completionTokens: 0,
    });
    if (result.kind !== 'classify') throw new Error();
    expect(result.data.map(({ label }) => label)).toEqual(['negative', '__proto__']);
    expect(Object.entries(result.data[1]!.scores).map(([label, score]) => [label, score.toFixed(6)])).toEqual(
      [
        ['negative', '0.250000'],
        ['__proto__', '0.750000'],
      ],
    );
    expect(jobs.running).toBe(0);
  });

  it('streams a completion, stops it at its stop string, and drops later tokens', () => {
    const { sent, control, jobs } = bench();
    const [the, acting, is, fine] = mini.encodePlain('the acting is fine');
    jobs.start('a', complete({ maxTokens: 9, stop: [' is'], stream: true }));
    for (const id of [the!, acting!, is!, fine!])
      jobs.onInference({ type: 'tokens', tokens: [{ item: 0, choice: 0, id }] });
    expect(control).toEqual([{ type: 'stop', item: 0, choice: 0 }]);
    jobs.onInference({ type: 'done', item: 0, job: 0, end });
    const deltas = sent
      .flatMap((message) => (message.type === 'deltas' ? message.deltas : []))
      .map(({ delta }) => delta);
    expect(deltas.map(({ text }) => text).join('')).toBe('the acting');
    expect(deltas.map(({ finishReason }) => finishReason)).toEqual([null, null, 'stop']);
    expect(sent.at(-1)).toMatchObject({
      type: 'result',
      result: {
        choices: [{ text: 'the acting', tokenIds: [the, acting, is], finishReason: 'stop' }],
        completionTokens: 3,
      },
    });
  });

  it('numbers choices prompt by prompt, and stops each on its own', () => {
    const { sent, items, control, jobs } = bench();
    const [a, fine] = mini.encodePlain('a fine');
    jobs.start('a', complete({ prompts: ['x', 'y'], choices: 2, maxTokens: 2, stop: ['fine'] }));
    expect(items.map(({ item, work }) => [item, work.kind === 'generate' && work.choices.length])).toEqual([
      [0, 2],
      [1, 2],
    ]);
    const tokens = [
      { item: 1, choice: 0, id: fine! },
      { item: 0, choice: 1, id: a! },
      { item: 0, choice: 0, id: 1 },
      { item: 1, choice: 1, id: a! },
    ];
    jobs.onInference({ type: 'tokens', tokens });
    // A stop string ends choice 0 of the second prompt, and an end token ends choice 0 of the first prompt.
    expect(control).toEqual([
      { type: 'stop', item: 1, choice: 0 },
      { type: 'stop', item: 0, choice: 0 },
    ]);
    jobs.onInference({ type: 'done', item: 0, job: 0 });
    jobs.onInference({ type: 'done', item: 1, job: 0, end });
    expect(sent.at(-1)).toMatchObject({
      type: 'result',
      result: {
        choices: [
          { index: 0, tokenIds: [1], finishReason: 'stop' },
          { index: 1, tokenIds: [a] },
          { index: 2, tokenIds: [fine], text: '', finishReason: 'stop' },
          { index: 3, tokenIds: [a] },
        ],
        completionTokens: 4,
      },
    });
  });

  it('removes a cancelled job everywhere and sends nothing more', () => {
    const { sent, cancelled, control, jobs } = bench();
    jobs.start('a', complete());
    jobs.start('b', complete());
    jobs.cancel('b');
    jobs.cancel('a');
    jobs.cancel('never');
    expect(cancelled).toEqual([1, 0]);
    expect(control).toEqual([
      { type: 'cancel', job: 1, lastBatch: 8 },
      { type: 'cancel', job: 0, lastBatch: 7 },
    ]);
    jobs.onInference({ type: 'tokens', tokens: [{ item: 0, choice: 0, id: 5 }] });
    jobs.onInference({ type: 'done', item: 0, job: 0, end });
    expect([sent, jobs.running]).toEqual([[], 0]);
  });

  it('answers a failed job once and makes the inference thread skip its items', () => {
    const { sent, cancelled, control, jobs } = bench();
    jobs.start('a', complete({ prompts: ['x', 'y'] }));
    const error = { code: 'io_error', message: 'short read' } as const;
    jobs.onInference({ type: 'job-error', job: 0, error });
    jobs.onInference({ type: 'job-error', job: 0, error });
    expect(sent).toEqual([{ type: 'error', id: 'a', error }]);
    expect(cancelled).toEqual([0]);
    expect(control).toEqual([{ type: 'cancel', job: 0, lastBatch: 7 }]);
  });
});

describe('refusals', () => {
  const classify = (inputs: string[], labels: string[]): TaskJob => ({ kind: 'classify', inputs, labels });
  it.each<[string, TaskJob, object]>([
    [
      'an input longer than a batch',
      classify(['a '.repeat(100)], ['no', 'yes']),
      { code: 'context_length_exceeded', param: 'input', details: { tokens: 102, limit: 64 } },
    ],
    [
      'a text above the byte limit',
      classify(['a'.repeat(1001)], ['no', 'yes']),
      { code: 'request_too_large', details: { bytes: 1001, limit: 1000 } },
    ],
    [
      'labels the tokenizer cannot tell apart',
      classify(['a'], ['no', 'NO']),
      { code: 'invalid_request', param: 'labels' },
    ],
    ['a label without tokens', classify(['a'], ['no', '']), { code: 'invalid_request', param: 'labels' }],
    [
      'a label longer than a batch',
      classify(['a'], ['no', 'a '.repeat(100)]),
      { code: 'context_length_exceeded', param: 'labels' },
    ],
    ['a prompt without tokens', complete({ prompts: [[]] }), { code: 'invalid_request', param: 'prompt' }],
    [
      'an id outside the vocabulary',
      complete({ prompts: [[5, 8000]] }),
      { code: 'invalid_request', param: 'prompt' },
    ],
    [
      'an id that is no whole number',
      complete({ prompts: [[1.5]] }),
      { code: 'invalid_request', param: 'prompt' },
    ],
    [
      'an output that never fits',
      complete({ maxTokens: 113 }),
      { code: 'cannot_run', details: { needed_pages: 9, kv_pages: 8 } },
    ],
    ['no output', complete({ maxTokens: 0 }), { code: 'invalid_request', param: 'max_tokens' }],
    ['an empty stop string', complete({ stop: [''] }), { code: 'invalid_request', param: 'stop' }],
    ['no prompts', complete({ prompts: [] }), { code: 'invalid_request' }],
  ])('%s', (_, request, error) => {
    const { sent, jobs, items } = bench();
    jobs.start('a', request);
    expect(sent).toMatchObject([{ type: 'error', id: 'a', error }]);
    expect([jobs.running, items.length]).toEqual([0, 0]);
  });

  it('accepts the longest output that fits', () => {
    const { sent, items, jobs } = bench();
    jobs.start('a', complete({ maxTokens: 112 }));
    expect([sent.length, items.length]).toEqual([0, 1]);
  });

  it('a job that is cancelled while its texts are encoded runs no further and is not answered', () => {
    const left: string[] = [];
    const { sent, items, jobs } = bench({
      encode: (texts) => () => left.push(...texts.map(({ text }) => text)),
    });
    jobs.start('a', complete({ prompts: ['x', [3], 'y'] }));
    jobs.start('b', job({ kind: 'tokenize', inputs: ['z'], addSpecialTokens: true }));
    expect(jobs.running).toBe(2);
    jobs.cancel('a');
    jobs.cancel('b');
    jobs.cancel('b');
    expect(left).toEqual(['x', 'y', 'z']);
    expect([sent.length, items.length, jobs.running]).toEqual([0, 0, 0]);
  });

  it('a tokenization is refused when its answer would be too large', () => {
    const ids = new Int32Array(32_768).fill(5);
    const { sent, jobs } = bench({
      encode(texts, done) {
        done(texts.map(() => ids));
        return () => undefined;
      },
    });
    jobs.start('a', job({ kind: 'tokenize', inputs: ['x', 'x'], addSpecialTokens: true }));
    jobs.start('b', job({ kind: 'tokenize', inputs: ['x', 'x', 'x'], addSpecialTokens: true }));
    expect(sent).toMatchObject([
      { id: 'a', type: 'result', result: { promptTokens: 65_536 } },
      { id: 'b', error: { code: 'cannot_run', details: { tokens: 98_304, limit: 65_536 } } },
    ]);
  });

  it('token ids are decoded by the tokenizer thread, and texts that are too large together are refused', () => {
    const texts: Record<number, string> = { 2: 'a', 3: 'x'.repeat(1_500_000) };
    const { sent, jobs } = bench({
      decode(lists, done) {
        done(lists.map(({ ids }) => texts[ids.length]!));
        return () => undefined;
      },
    });
    const detokenize = (ids: number[][]) => job({ kind: 'detokenize', ids, skipSpecialTokens: true });
    jobs.start('a', detokenize([[1, 2], [1, 2, 3]])); // biome-ignore format: one line
    jobs.start('b', detokenize(Array(3).fill([1, 2, 3])));
    expect(sent).toMatchObject([
      { id: 'a', type: 'result', result: { texts: ['a', texts[3]], promptTokens: 5 } },
      { id: 'b', error: { code: 'cannot_run', details: { bytes: 4_500_000, limit: 4 << 20 } } },
    ]);
  });

  it('a tokenization is refused when the texts of its tokens would be too large', () => {
    const ids = new Int32Array(4_100).fill(5);
    const { sent, jobs } = bench({
      encode(texts, done) {
        done(texts.map(() => ids));
        return () => undefined;
      },
    });
    const named = vi.spyOn(mini, 'idToToken').mockReturnValue('x'.repeat(1024));
    jobs.start('a', job({ kind: 'tokenize', inputs: ['x'], addSpecialTokens: true }));
    named.mockRestore();
    expect(sent).toMatchObject([{ error: { code: 'cannot_run', details: { limit: 4 << 20 } } }]);
  });

  it('texts that are too large together are refused before any is encoded', () => {
    const { sent, jobs } = bench({ encode: () => expect.unreachable() });
    jobs.start(
      'a',
      job({ kind: 'tokenize', inputs: Array(1100).fill('x'.repeat(1000)), addSpecialTokens: true }),
    );
    jobs.start('b', job({ kind: 'classify', inputs: ['x'], labels: ['a', 'y'.repeat(1001)] }));
    expect(sent).toMatchObject([
      { error: { code: 'request_too_large', details: { bytes: 1_100_000, limit: 1_048_576 } } },
      { error: { code: 'request_too_large', details: { bytes: 1001, limit: 1000 } } },
    ]);
  });
});

describe('due times', () => {
  const due = (request: TaskJob, times?: { arrivedMs: number; deadlineMs: number }) => {
    const { items, jobs } = bench();
    jobs.start('a', request, times);
    return items.map(({ dueMs }) => dueMs);
  };
  const arrived = (agoMs: number, deadlineMs: number) => {
    const arrivedMs = clockMs() - agoMs;
    return { arrivedMs, deadlineMs: arrivedMs + deadlineMs };
  };

  it('are later for more tokens, and equal for the inputs of a job', () => {
    const times = arrived(0, Number.POSITIVE_INFINITY);
    const [few, many] = [1, 100].map((maxTokens) =>
      due(complete({ prompts: ['x', 'x', 'x'], maxTokens }), times).map((at) => at - times.arrivedMs),
    );
    expect(few![0]).toBeGreaterThan(0);
    expect(many![0]).toBeGreaterThan(10 * few![0]!);
    expect(new Set(many).size).toBe(1);
  });

  it('count from the arrival at the queue', () => {
    const [now, before] = [arrived(0, 1e9), arrived(5_000, 1e9)];
    const [late, soon] = [now, before].map((times) => due(complete({ maxTokens: 100 }), times)[0]!);
    expect(late! - soon!).toBeCloseTo(now.arrivedMs - before.arrivedMs, 3);
  });

  it('are within half of the deadline, and of max_seconds', () => {
    const short = arrived(0, 0.002);
    expect(due(complete({ maxTokens: 100 }), short)[0]! - short.arrivedMs).toBeCloseTo(0.001, 4);
    const times = arrived(0, 1e9);
    const limited = complete({ maxTokens: 100, maxSeconds: 2e-6 });
    expect(due(limited, times)[0]! - times.arrivedMs).toBeCloseTo(0.001, 4);
  });
});
