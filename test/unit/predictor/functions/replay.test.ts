import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { NO_EXPERT } from '../../../../src/native/addon-types.js';
import { ReplayFunction } from '../../../../src/predictor/functions/replay.js';
import { cyclicPermutation, ShuffledFunction } from '../../../../src/predictor/functions/shuffled.js';
import { randomOf } from '../../../../src/predictor/random.js';
import { Teacher } from '../../../../src/predictor/teacher.js';
import { hitRates, inputOf, routedOf } from '../../../../src/predictor/training/hit-rates.js';
import { TokenTableLearner } from '../../../../src/predictor/training/token-table-learning.js';
import {
  ALONE,
  aloneOf,
  DECODER,
  ENCODER,
  freshPath,
  LAYERS,
  recordOf,
  recordsOf,
  removeFiles,
  SHAPE,
  sourceOf,
  traceOf,
} from '../routing-fixture.js';

afterAll(removeFiles);

const records = recordsOf(20);
const replay = await ReplayFunction.load(await Teacher.open([await traceOf(records)], SHAPE.vocab));

function fill(stack: number, input: ReturnType<typeof inputOf>, k = 2) {
  const { layers } = SHAPE.stacks[stack]!;
  const experts = new Uint16Array(layers * input.tokens.length * k).fill(77);
  const alpha = new Float32Array(experts.length).fill(77);
  const chance = new Float32Array(experts.length).fill(77);
  return { known: replay.fill(stack, input, k, experts, alpha, chance), experts, alpha, chance };
}

describe('replay', () => {
  it('returns only the recorded expert of every token, with its probability', async () => {
    const rates = await hitRates(replay, sourceOf(records), { batchTokens: 30 });
    for (const { alpha } of rates) {
      // Of the best of some experts.
      expect(alpha).toBeGreaterThan(1 / SHAPE.experts);
      expect(alpha).toBeLessThan(1);
    }
    expect(rates.map(({ alpha, ...rest }) => rest)).toEqual(
      LAYERS.map((layer, i) => {
        const tokens = records.reduce(
          (sum, r) => sum + r.stacks[i < 3 ? ENCODER : DECODER]!.tokens.length,
          0,
        );
        const alphaError = expect.closeTo(0, 6);
        return { layer, tokens, hits: [tokens, tokens, tokens], alphaError, unknown: 0 };
      }),
    );
    const { experts, alpha, chance } = fill(ENCODER, inputOf(records.slice(3, 5), ENCODER, SHAPE));
    for (let i = 0; i < experts.length; i += 2) {
      expect(chance[i]).toBe(1);
      expect([experts[i + 1], alpha[i + 1], chance[i + 1]]).toEqual([NO_EXPERT, 0, 0]);
    }
  });

  it('finds batches of recorded sequences in any order', () => {
    const some = [records[7]!, records[2]!, records[7]!];
    for (const side of [ENCODER, DECODER]) {
      const { known, experts } = fill(side, inputOf(some, side, SHAPE), 1);
      expect(known).toBe(true);
      expect(experts).toEqual(routedOf(some, side, SHAPE));
    }
  });

  it('finds a prefix of a recorded decoder input by its context', () => {
    const record = records.find(({ stacks }) => stacks[DECODER]!.tokens.length > 2)!;
    const whole = inputOf([record], DECODER, SHAPE);
    const begun = { ...whole, tokens: whole.tokens.slice(0, 2), offsets: Int32Array.of(0, 2) };
    const { known, experts } = fill(DECODER, begun, 1);
    expect(known).toBe(true);
    const all = routedOf([record], DECODER, SHAPE);
    const n = record.stacks[DECODER]!.tokens.length;
    expect([...experts]).toEqual([all[0], all[1], all[n], all[n + 1]]);
    const other = { ...begun, tokens: begun.tokens.map((token) => token + 1) };
    expect(fill(DECODER, other).known).toBe(false);
    expect(fill(DECODER, { tokens: begun.tokens, offsets: begun.offsets }).known).toBe(false);
  });

  it('finds each of the decoder inputs that were recorded with one context', async () => {
    const context = [5, 6, 7];
    const labels = [
      [0, 3, 4],
      [0, 3, 9, 2],
      [0, 8],
    ].map((tokens) => recordOf(0, context, tokens));
    const own = await ReplayFunction.load(sourceOf([records[0]!, ...labels, records[1]!]));
    const found = (...batch: typeof labels) => {
      const input = inputOf(batch, DECODER, SHAPE);
      const { layers } = SHAPE.stacks[DECODER]!;
      const experts = new Uint16Array(layers * input.tokens.length);
      const known = own.fill(
        ...([DECODER, input, 1, experts] as const),
        ...[new Float32Array(experts.length), new Float32Array(experts.length)],
      );
      return known ? experts : null;
    };
    expect(found(...labels)).toEqual(routedOf(labels, DECODER, SHAPE));
    for (const one of labels) expect(found(one)).toEqual(routedOf([one], DECODER, SHAPE));
    expect(found(labels[0]!, recordOf(0, context, [0, 9]))).toBeNull();
    expect(found(recordOf(0, [5, 6], [0, 8]))).toBeNull();
  });

  it('returns all choices of a decoder-only model, for a prefix or for a part after the prompt', async () => {
    const alone = aloneOf(records);
    const own = await ReplayFunction.load(sourceOf(alone, ALONE));
    expect(await hitRates(own, sourceOf(alone, ALONE))).toMatchObject(
      ['decoder.1', 'decoder.3'].map((layer) => {
        const tokens = alone.reduce((sum, { stacks }) => sum + stacks[0]!.tokens.length, 0);
        return {
          layer,
          tokens,
          hits: [2 * tokens, 2 * tokens],
          alphaError: expect.closeTo(0, 6),
          unknown: 0,
        };
      }),
    );
    const record = alone.find(({ stacks }) => stacks[0]!.tokens.length === 4)!;
    const { tokens } = record.stacks[0]!;
    const behind = {
      tokens: tokens.slice(2),
      offsets: Int32Array.of(0, 2),
      contextTokens: tokens.slice(0, 2),
      contextOffsets: Int32Array.of(0, 2),
    };
    const experts = new Uint16Array(2 * 2 * 2);
    expect(own.fill(0, behind, 2, experts, new Float32Array(8), new Float32Array(8))).toBe(true);
    const all = routedOf([record], 0, ALONE);
    expect([...experts]).toEqual([...all.slice(4, 8), ...all.slice(12, 16)]);
    behind.contextTokens[0]! += 1;
    expect(own.fill(0, behind, 2, experts, new Float32Array(8), new Float32Array(8))).toBe(false);
  });

  it('refuses a batch with a sequence that was not recorded', () => {
    const cut = recordOf(0, [...records[0]!.stacks[ENCODER]!.tokens.slice(0, -1)], [0]);
    expect(fill(ENCODER, inputOf([records[1]!, cut], ENCODER, SHAPE)).known).toBe(false);
    expect(fill(ENCODER, inputOf([records[1]!], ENCODER, SHAPE)).known).toBe(true);
  });

  it('counts tokens that it cannot predict as missed', async () => {
    const unknown = sourceOf([recordOf(0, [9, 9, 9], [0])]);
    const rates = await hitRates(replay, unknown);
    expect(rates[0]).toEqual({
      layer: 'encoder.1',
      tokens: 3,
      hits: [0, 0, 0],
      alpha: 0,
      alphaError: 0,
      unknown: 3,
    });
  });
});

describe('teacher', () => {
  it('reads several traces as one, and any subset of the records', async () => {
    const directories = [await traceOf(recordsOf(4)), await traceOf(recordsOf(3, 5))];
    const teacher = await Teacher.open(directories, SHAPE.vocab);
    expect(teacher.shape).toEqual(SHAPE);
    const read = async (source: Pick<Teacher, 'records'> | ReturnType<Teacher['only']>) => {
      const lines: Int32Array[] = [];
      for await (const { stacks } of source.records()) lines.push(stacks[ENCODER]!.tokens);
      return lines;
    };
    const all = [...recordsOf(4), ...recordsOf(3, 5)].map(({ stacks }) => stacks[ENCODER]!.tokens);
    expect(await read(teacher)).toEqual(all);
    expect(await read(teacher.only((i) => i % 3 === 1))).toEqual([all[1], all[4]]);
  });

  it('refuses traces that are missing, incomplete, of another model or that do not fit it', async () => {
    const good = await traceOf(recordsOf(2));
    const open = (...directories: string[]) => Teacher.open(directories, SHAPE.vocab);
    await expect(open()).rejects.toThrow('No trace');
    await expect(open(freshPath())).rejects.toThrow('no trace');
    await expect(open(await traceOf([], { finish: false }))).rejects.toThrow('is incomplete');
    await expect(open(good, await traceOf([], { weights: 'beef' }))).rejects.toThrow(
      'is a trace of small (weights beef, tokenizer 000000000000)',
    );
    const small = await Teacher.open([good], 7);
    await expect(small.records().next()).rejects.toThrow(/line 1, encoder: token \d+, the vocabulary has 7/);
    const strange = recordsOf(1);
    strange[0]!.stacks[DECODER]!.experts[3] = 8;
    const odd = await open(await traceOf(strange));
    await expect(odd.records().next()).rejects.toThrow('decoder: expert 8, a layer has 8');
    const broken = recordsOf(1);
    broken[0]!.stacks[ENCODER]!.logits[3] = Number.NaN;
    const nan = await open(await traceOf(broken));
    await expect(nan.records().next()).rejects.toThrow('router logit NaN');
  });
});

describe('shuffled', () => {
  it('permutes by one cycle, so that every expert gets another index', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 300 }), fc.integer(), (size, seed) => {
        const names = cyclicPermutation(size, randomOf(seed));
        expect(new Set(names).size).toBe(size);
        expect(names.some((name, i) => name === i || name >= size)).toBe(false);
        expect(names).toEqual(cyclicPermutation(size, randomOf(seed)));
      }),
    );
  });

  it('lists as many distinct experts per layer as the inner function, all of them wrong', async () => {
    const shuffled = new ShuffledFunction(replay, SHAPE, 3);
    const input = inputOf(records, ENCODER, SHAPE);
    const experts = new Uint16Array(3 * input.tokens.length * 2);
    const [alpha, chance] = [new Float32Array(experts.length), new Float32Array(experts.length)];
    expect(shuffled.fill(ENCODER, input, 2, experts, alpha, chance)).toBe(true);
    const truth = fill(ENCODER, input);
    expect(chance).toEqual(truth.chance);
    const distinct = (of: Uint16Array, layer: number) =>
      new Set(of.subarray((layer * of.length) / 3, ((layer + 1) * of.length) / 3)).size;
    for (const layer of [0, 1, 2]) expect(distinct(experts, layer)).toBe(distinct(truth.experts, layer));
    for (let i = 0; i < experts.length; i++) {
      expect(experts[i] === truth.experts[i]).toBe(truth.experts[i] === NO_EXPERT);
    }
    for (const { hits } of await hitRates(shuffled, sourceOf(records))) expect(hits[2]).toBe(0);
    const unknown = inputOf([recordOf(0, [9, 9, 9], [0])], ENCODER, SHAPE);
    expect(shuffled.fill(ENCODER, unknown, 1, new Uint16Array(9), alpha, chance)).toBe(false);
  });
});

describe('hit rates', () => {
  it('counts the true expert among the best 1, 2 and 3, and the error of alpha if the first is right', async () => {
    const learner = new TokenTableLearner(SHAPE);
    const once = [recordOf(0, [3, 4, 5], [0])];
    for (const record of once) learner.add(record);
    const table = learner.finish();
    const truth = routedOf(once, ENCODER, SHAPE);
    const places = [0, 1, 3];
    const fixed = {
      name: 'token' as const,
      // The true expert is listed first, second and fourth.
      fill: (
        stack: number,
        { tokens }: { tokens: Int32Array },
        k: number,
        experts: Uint16Array,
        alpha: Float32Array,
      ) => {
        if (stack === DECODER) return false;
        experts.fill(NO_EXPERT);
        for (let row = 0; row < 3 * tokens.length; row++) experts[row * k + places[row % 3]!] = truth[row]!;
        alpha.fill(0.5);
        return true;
      },
      close() {},
    };
    const rates = await hitRates(fixed, sourceOf(once));
    const sure = 1 / Array.from({ length: 8 }, (_, i) => Math.exp(-i)).reduce((a, b) => a + b);
    const alphaError = expect.closeTo(sure - 0.5, 6);
    for (const i of [0, 1, 2]) {
      expect(rates[i]).toEqual({
        ...{ layer: LAYERS[i], tokens: 3, hits: [1, 2, 2], unknown: 0 },
        ...{ alpha: expect.closeTo(sure, 6), alphaError },
      });
    }
    expect(rates[3]).toMatchObject({ tokens: 1, hits: [0, 0, 0], unknown: 1 });
    expect((await hitRates(table, sourceOf(once)))[0]!.hits).toEqual([3, 3, 3]);
  });
});
