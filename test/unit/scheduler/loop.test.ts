import { afterEach, describe, expect, it } from 'vitest';
import type { ItemWork } from '../../../src/protocol/item-work.js';
import { planScoring } from '../../../src/scheduler/scoring.js';
import { bench, closeBench } from './loop-bench.js';

afterEach(closeBench);

const generate = (maxTokens: number, logprobs: number | null = null): ItemWork => {
  return { kind: 'generate', maxTokens, logprobs, choices: [null] };
};
const score = (labels: number[][]): ItemWork => ({ kind: 'score', plan: planScoring(labels, 0, 1) });

describe('generation', () => {
  it('ends at the end token or at its length, and frees its pages', () => {
    const { send, settle, tokensOf, of, clean } = bench();
    // The tokens are 13 + 1, 13 + 2, 16 mod 16 = 0, and 1, which is the end token.
    send(
      { item: 7, job: 1, work: generate(9), tokens: [6, 7] },
      { item: 8, job: 2, work: generate(2), tokens: [3] },
    );
    settle();
    expect(tokensOf(7)).toEqual([14, 15, 0, 1]);
    expect(tokensOf(8)).toEqual([4, 5]);
    expect(of('done').map(({ item }) => item)).toEqual([8, 7]);
    clean();
  });

  it('decodes sequences of different batches together', () => {
    const { engine, loop, send, settle, tokensOf } = bench();
    send({ item: 1, job: 1, work: generate(6), tokens: [2] });
    loop.turn();
    loop.turn();
    send({ item: 2, job: 2, work: generate(3), tokens: [4] });
    settle();
    const widths = engine.calls.filter(({ stack }) => stack === 1).map(({ sequences }) => sequences.length);
    expect(widths).toEqual([1, 1, 2, 2, 2, 1]);
    expect([tokensOf(1), tokensOf(2)]).toEqual([
      [3, 4, 5, 6, 7, 8],
      [5, 6, 7],
    ]);
  });

  it('returns log-probabilities on request', () => {
    const { send, settle, of } = bench();
    send({ item: 1, job: 1, work: generate(1, 2), tokens: [2] });
    settle();
    const [token] = of('tokens')[0]!.tokens;
    const top = Math.log(Math.exp(4) / (Math.exp(4) + 15));
    expect(token).toMatchObject({ id: 3, logprobs: { top: [{ id: 3 }, { id: 0 }] } });
    expect(token!.logprobs!.logprob).toBeCloseTo(top, 12);
  });

  it('starts inputs in order as pages become free, within the cache', () => {
    // Each input holds 1 page of context and 2 pages of decoder, so two inputs fit.
    const { engine, loop, send, settle, of, tokensOf, clean } = bench(7);
    send(...[0, 1, 2, 3, 4].map((item) => ({ item, job: item, work: generate(5), tokens: [item + 2] })));
    loop.turn();
    expect(engine.calls[0]!.sequences).toHaveLength(2);
    settle();
    expect(of('done').map(({ item }) => item)).toEqual([0, 1, 2, 3, 4]);
    expect(tokensOf(4)).toEqual([7, 8, 9, 10, 11]);
    expect(engine.peakPages).toBeLessThanOrEqual(7);
    clean();
  });

  it('stops one early and still reports it done exactly once', () => {
    const { loop, send, settle, control, of, tokensOf, clean } = bench();
    send({ item: 1, job: 1, work: generate(9), tokens: [2] });
    loop.turn();
    control.push({ type: 'stop', item: 1, choice: 0 }, { type: 'stop', item: 1, choice: 0 });
    settle();
    expect(tokensOf(1)).toEqual([3]);
    expect(of('done')).toHaveLength(1);
    clean();
  });
});

describe('scoring', () => {
  it('sums the log-probabilities of each label and frees its sequences', () => {
    const { engine, send, settle, of, clean } = bench();
    // After [2] the model expects 3, 4, 5, …
    send({ item: 1, job: 1, work: score([[3, 4], [3, 9], [8]]), tokens: [2] });
    settle();
    const likely = Math.log(Math.exp(4) / (Math.exp(4) + 15));
    const [a, b, c] = of('done')[0]!.scores!;
    expect(a).toBeCloseTo(2 * likely, 10);
    expect(b).toBeCloseTo(2 * likely - 4, 10);
    expect(c).toBeCloseTo(likely - 4, 10);
    expect(engine.calls.map(({ tokens }) => [...tokens])).toEqual([[2], [0, 3]]);
    clean();
  });

  it('splits decoder inputs over passes by their tokens, with the same scores', () => {
    const labels = Array.from({ length: 14 }, (_, i) => [i + 2, 3, 4, 5, 6, 7, 8]);
    const { engine, send, settle, of, clean } = bench();
    send({ item: 1, job: 1, work: score(labels), tokens: [2] });
    settle();
    const steps = engine.calls.filter(({ stack }) => stack === 1);
    expect(steps.length).toBeGreaterThan(2);
    expect(steps.every(({ tokens }) => tokens.length <= 32)).toBe(true);
    expect(of('done')[0]!.scores!.indexOf(Math.max(...of('done')[0]!.scores!))).toBe(1);
    clean();
  });

  it('runs between the steps of a completion', () => {
    const { loop, send, of } = bench();
    send({ item: 1, job: 1, work: generate(9), tokens: [2] });
    loop.turn();
    send({ item: 2, job: 2, work: score([[3], [4]]), tokens: [5] });
    loop.turn();
    expect(of('done').map(({ item }) => item)).toEqual([2]);
    expect(of('tokens')).toHaveLength(2);
  });
});

describe('jobs', () => {
  it('reports the cost of a job over all batches with its last item', () => {
    const { send, settle, of } = bench();
    send({ item: 1, job: 5, jobItems: 2, work: score([[3], [4]]), tokens: [4, 8, 1, 5, 2] });
    send({ item: 2, job: 5, jobItems: 2, work: score([[3], [4]]), tokens: [3] });
    settle();
    const ends = of('done').map(({ end }) => end?.cost);
    expect(ends[0]).toBeUndefined();
    // The encoder uses experts 0, 1, 2 and 3. The decoder's start token uses expert 0 in each of two steps.
    expect(ends[1]).toEqual({
      peer: 0,
      cpu: 0,
      needed: 6,
      resident: 3,
      prefetched: 1,
      late: 1,
      on_demand: 1,
      loaded: 3,
      bytes: 300,
      stall_ms: 4,
      predicted: 0,
      hits_top1: 0,
      hits_top3: 0,
    });
  });

  it('drops a cancelled job wherever its items are, and leaves others alone', () => {
    const { engine, loop, send, settle, control, of, tokensOf, clean } = bench();
    send(
      { item: 1, job: 1, jobItems: 2, work: generate(9), tokens: [2] },
      { item: 2, job: 2, work: generate(3), tokens: [4] },
    );
    loop.turn();
    send({ item: 3, job: 1, jobItems: 2, work: generate(9), tokens: [2] });
    control.push({ type: 'cancel', job: 1, lastBatch: 1 });
    settle();
    expect(tokensOf(1)).toEqual([3]);
    expect(tokensOf(3)).toEqual([]);
    expect(tokensOf(2)).toEqual([5, 6, 7]);
    expect(of('done').map(({ item }) => item)).toEqual([2]);
    expect(engine.calls.filter(({ stack }) => stack === 0)).toHaveLength(1);
    clean();
  });

  it('fails the jobs of a step that fails, and serves the next ones', () => {
    const { engine, send, settle, control, of, clean } = bench();
    engine.beforeRun = (batch) => {
      if (batch.tokens.includes(13)) throw Object.assign(new Error('short read'), { code: 'io_error' });
    };
    send({ item: 1, job: 1, work: generate(3), tokens: [13] });
    settle();
    expect(of('job-error')).toMatchObject([{ job: 1, error: { code: 'io_error', message: 'short read' } }]);
    expect(of('job-error')[0]!.error).not.toHaveProperty('ran');
    control.push({ type: 'cancel', job: 1, lastBatch: 0 });
    send({ item: 2, job: 2, work: generate(1), tokens: [4] });
    settle();
    expect(of('done').map(({ item }) => item)).toEqual([2]);
    clean();
  });

  it('fails running generations whose step fails, and releases them', () => {
    const { engine, send, settle, of, clean } = bench();
    engine.beforeRun = ({ stack, tokens }) => {
      if (stack === 1 && tokens.includes(5)) throw Object.assign(new Error('lost'), { code: 'io_error' });
    };
    send(
      { item: 1, job: 1, work: generate(9), tokens: [2] },
      { item: 2, job: 2, work: generate(9), tokens: [3] },
    );
    settle();
    // Their prompts have run.
    expect(of('job-error').map(({ job, error }) => [job, error.ran])).toEqual([
      [1, true],
      [2, true],
    ]);
    expect(of('done')).toEqual([]);
    clean();
  });

  it.each([
    ['generation', generate(3)],
    ['scoring', score([[3], [4]])],
  ])(
    'answers a %s whose logits are not finite with nonfinite_output, its neighbour with its result',
    (_, work) => {
      const { engine, send, settle, of, clean } = bench();
      engine.editRow = (row, context) => {
        if (context[0] === 13) row[7] = Number.NaN;
      };
      send({ item: 1, job: 1, work, tokens: [13] }, { item: 2, job: 2, work, tokens: [2] });
      settle();
      expect(of('job-error')).toMatchObject([{ job: 1, error: { code: 'nonfinite_output' } }]);
      expect(of('done').map(({ item }) => item)).toEqual([2]);
      clean();
    },
  );

  it('stops when the engine breaks an invariant', () => {
    const { engine, loop, send } = bench();
    engine.beforeRun = () => {
      throw new Error('slot 3 is leased twice. This is a bug.');
    };
    send({ item: 1, job: 1, work: generate(3), tokens: [2] });
    expect(() => loop.turn()).toThrow('This is a bug');
  });
});

describe('control', () => {
  it('answers requests between steps, and errors as control errors', () => {
    const { engine, loop, control, of } = bench();
    control.push(
      { type: 'control', id: 1, request: { kind: 'set-budget', device: '25%' } },
      { type: 'control', id: 2, request: { kind: 'set-budget', device: '1' } },
      { type: 'control', id: 3, request: { kind: 'experts' } },
    );
    loop.turn();
    expect(engine.budget).toBe(1200);
    expect(of('control-reply')).toMatchObject([
      { id: 1, reply: { kind: 'set-budget', usage: { budgetBytes: 1200 } } },
      { id: 3, reply: { layers: [{ layer: 'encoder.1' }, { layer: 'decoder.1' }] } },
    ]);
    expect(of('control-error')).toMatchObject([{ id: 2, error: { code: 'budget_too_small' } }]);
  });

  it('refuses a budget above what other models leave of a shared one, with the numbers', () => {
    const { engine, loop, control, of } = bench();
    const before = engine.budget;
    const shared = { total: 80 * 2 ** 20, others: 66 * 2 ** 20 };
    control.push({ type: 'control', id: 1, request: { kind: 'set-budget', device: '50MiB', shared } });
    loop.turn();
    expect(engine.budget).toBe(before);
    expect(of('control-error')).toMatchObject([
      {
        id: 1,
        error: {
          code: 'budget_too_small',
          param: 'device',
          message:
            'A budget of 50.0 MiB does not fit: the models share 80.0 MiB, the others have 66.0 MiB, and 14.0 MiB are left',
        },
      },
    ]);
    const room = { total: 3000, others: 1800 };
    control.push({ type: 'control', id: 2, request: { kind: 'set-budget', device: '1200', shared: room } });
    loop.turn();
    expect(engine.budget).toBe(1200);
  });

  it('closes the engine and sends a closed message', () => {
    const { engine, loop, control, out } = bench();
    control.push({ type: 'close' });
    loop.run();
    expect(engine.closed).toBe(true);
    expect(out.at(-1)).toEqual({ type: 'closed' });
  });
});
