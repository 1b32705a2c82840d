import { readFileSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { readGraph, writeGraph } from '../../../src/predictor/functions/graph-file.js';
import { LayerRescorer } from '../../../src/predictor/functions/layer-rescorer.js';
import { NO_EXPERT } from '../../../src/predictor/hash-table.js';
import { hitRates } from '../../../src/predictor/training/hit-rates.js';
import { learnHashFunctions } from '../../../src/predictor/training/learn-hash-functions.js';
import { freshPath, recordsOf, removeFiles, SHAPE, sourceOf } from './routing-fixture.js';

afterAll(removeFiles);

const { table, graph, heldOut } = await learnHashFunctions(sourceOf(recordsOf(400)));
const fresh = sourceOf(recordsOf(100, 9));

describe('layer rescorer', () => {
  const E = 12;
  const unit = fc.float({ min: 0, max: 1, noNaN: true });
  const rows = fc.record({
    k: fc.integer({ min: 1, max: 16 }),
    ratios: fc.array(fc.float({ min: 0, max: 50, noNaN: true }), { minLength: E * E, maxLength: E * E }),
    frequencies: fc.array(fc.integer({ min: 1, max: 99 }), { minLength: E, maxLength: E }),
    sure: fc.array(unit, { minLength: 5, maxLength: 5 }),
    routed: fc.array(fc.oneof(fc.nat(E - 1), fc.constant(NO_EXPERT)), { minLength: 1, maxLength: 5 }),
    named: fc.array(fc.uniqueArray(fc.nat(E - 1)), { minLength: 5, maxLength: 5 }),
  });

  it('never names an expert twice, leaves no gap, and keeps each expert with its own alpha', () => {
    fc.assert(
      fc.property(rows, ({ k, ratios, frequencies, sure, routed, named }) => {
        const experts = new Uint16Array(routed.length * k).fill(NO_EXPERT);
        const alpha = new Float32Array(experts.length);
        routed.forEach((_, t) => {
          const row = named[t]!.slice(0, k);
          experts.set(row, t * k);
          alpha.set(
            row.map((e) => (e + 1) / 16),
            t * k,
          );
        });
        // Each further expert half as likely as the one before: at most 1 together.
        const chance = Float32Array.from(experts, (_, i) => sure[Math.floor(i / k)]! * 0.5 ** ((i % k) + 1));
        const before = experts.slice();
        const given = chance.slice();
        const sum = frequencies.reduce((a, b) => a + b);
        const newcomers = Float32Array.from({ length: E }, (_, e) => (e + 1) / 64);
        new LayerRescorer({
          ratios: Float32Array.from(ratios),
          frequencies: Float32Array.from(frequencies, (n) => n / sum),
          alpha: newcomers,
        }).rescore(Uint16Array.from(routed), k, experts, alpha, chance);
        routed.forEach((e, t) => {
          const row = [...experts.subarray(t * k, (t + 1) * k)];
          const was = [...before.subarray(t * k, (t + 1) * k)];
          if (e === NO_EXPERT) {
            expect(row).toEqual(was);
            expect(chance[t * k]).toBe(given[t * k]);
            return;
          }
          const count = Math.min(k, E);
          expect(new Set(row.slice(0, count)).size).toBe(count);
          const chances = [...chance.subarray(t * k, (t + 1) * k)];
          expect(chances).toEqual(chances.toSorted((a, b) => b - a));
          expect(chances.at(-1)).toBeGreaterThanOrEqual(0);
          expect(chances.reduce((a, b) => a + b)).toBeLessThan(1 + 1e-5);
          row.forEach((expert, j) => {
            const own = (expert + 1) / (was.includes(expert) ? 16 : 64);
            expect(alpha[t * k + j]).toBe(j < count ? own : 0);
            expect(j < count ? expert < E : expert === NO_EXPERT).toBe(true);
          });
        });
      }),
    );
  });

  it('weighs how sure the table is against what follows the earlier expert', () => {
    // After expert 1, expert 4 is ten times as likely as otherwise; after all others the ratios say nothing.
    const ratios = new Float32Array(E * E).fill(1);
    ratios[1 * E + 4] = 10;
    const rescorer = new LayerRescorer({
      ratios,
      frequencies: new Float32Array(E).fill(1 / E),
      alpha: new Float32Array(E).fill(0.25),
    });
    const experts = Uint16Array.of(7, 4, 7, 4, 7, 3);
    const alpha = new Float32Array(6).fill(0.5);
    const chance = Float32Array.of(0.98, 0.01, 0.5, 0.1, 0.2, 0.1);
    rescorer.rescore(Uint16Array.of(1, 1, 1), 2, experts, alpha, chance);
    expect([...experts]).toEqual([7, 4, 4, 7, 4, 7]);
    // The third row's ten others had 0.7 between them, 4 now weighs ten times its part.
    const whole = [0.98 + 0.1 + 0.01, 0.5 + 1 + 0.4, 0.2 + 0.1 + 0.7 + 9 * 0.07];
    const weights = [0.98, 0.1, 1, 0.5, 0.7, 0.2];
    chance.forEach((p, i) => {
      expect(p).toBeCloseTo(weights[i]! / whole[Math.floor(i / 2)]!, 5);
    });
    expect([...alpha]).toEqual([0.5, 0.5, 0.5, 0.5, 0.25, 0.5]);
  });

  it('keeps the order where the ratios say nothing, and ignores what a table must not hold', () => {
    const rescorer = new LayerRescorer({
      ratios: new Float32Array(E * E).fill(1),
      frequencies: new Float32Array(E).fill(1 / E),
      alpha: new Float32Array(E),
    });
    const experts = Uint16Array.of(7, 2, 5);
    const chance = Float32Array.of(0.5, 0.3, 0.1);
    rescorer.rescore(Uint16Array.of(0), 3, experts, new Float32Array(3), chance);
    expect([...experts]).toEqual([7, 2, 5]);
    [0.5, 0.3, 0.1].forEach((p, j) => {
      expect(chance[j]).toBeCloseTo(p, 5);
    });
    const broken = Uint16Array.of(7, 7, 999);
    chance.fill(1 / 3);
    rescorer.rescore(Uint16Array.of(0), 3, broken, new Float32Array(3), chance);
    expect(broken[0]).toBe(7);
    expect(new Set(broken).size).toBe(3);
    expect(broken.every((e) => e < E)).toBe(true);
  });
});

describe('hash graph', () => {
  it('learns which expert follows which, and chains over layers', () => {
    for (let e = 0; e < 8; e++) {
      const row = (matrix: Float64Array) => [...matrix.subarray(e * 8, e * 8 + 8)];
      const next = row(graph.chain('encoder', 0, 1));
      expect(next.indexOf(Math.max(...next))).toBe((e * 3 + 1) % 8);
      const later = row(graph.chain('encoder', 0, 2));
      expect(later.indexOf(Math.max(...later))).toBe((e * 3 + 2) % 8);
      expect(later.reduce((a, b) => a + b)).toBeCloseTo(1, 4);
    }
  });

  it('names as a hash function what follows from the first layer', async () => {
    const rates = await hitRates(graph.hashFunction(table), fresh);
    for (const { layer, tokens, hits } of rates) {
      expect(hits[0] / tokens, layer).toBeGreaterThan(0.6);
    }
  });

  it('knows every later layer once the first is known, where layers follow one another', async () => {
    const alone = await hitRates(table, fresh, { k: 8 });
    const refined = await hitRates(table, fresh, { k: 8, refiner: graph.refiner('token')! });
    for (const i of [0, 3]) expect(refined[i]!.hits).toEqual(alone[i]!.hits);
    for (const i of [1, 2, 4]) {
      expect(alone[i]!.hits[0] / alone[i]!.tokens).toBeLessThan(0.95);
      expect(refined[i]!.hits[0] / refined[i]!.tokens).toBeGreaterThan(0.98);
    }
  });

  it('rewrites the layers to come and no other', () => {
    const experts = Uint16Array.from({ length: 3 * 2 * 2 }, (_, i) => i % 4);
    const alpha = new Float32Array(experts.length).fill(0.5);
    const chance = new Float32Array(experts.length).fill(0.25);
    const before = experts.slice();
    const refiner = graph.refiner('token')!;
    refiner.refine('encoder', 0, Uint16Array.of(0, 5), 3, 2, 2, experts, alpha, chance);
    expect(experts.subarray(0, 4)).toEqual(before.subarray(0, 4));
    const best = [4, 6, 8, 10].map((i) => experts[i]);
    expect(best).toEqual([1, 0, 2, 1]);
    const after = experts.slice();
    refiner.refine('encoder', 2, Uint16Array.of(0, 5), 3, 2, 2, experts, alpha, chance);
    expect(experts).toEqual(after);
  });

  it('is not used where it does not help', async () => {
    // Every layer follows the token alone: the table is right already.
    const plain = recordsOf(400).map((record) => {
      const right = (side: typeof record.encoder, layers: number) => {
        const { tokens } = side;
        const at = (i: number) => tokens[Math.floor(i / 4) % tokens.length]!;
        return {
          ...side,
          experts: Uint16Array.from({ length: layers * tokens.length * 4 }, (_, i) => (at(i) + (i % 4)) % 8),
        };
      };
      return { ...record, encoder: right(record.encoder, 3), decoder: right(record.decoder, 2) };
    });
    const learned = await learnHashFunctions(sourceOf(plain));
    expect(learned.graph.refiners.get('token')!.encoder.exponents.every((value) => value === 0)).toBe(true);
  });

  it('learns the same from the same records, in bounded memory', async () => {
    expect(heldOut.length).toBe(50);
    const again = await learnHashFunctions(sourceOf(recordsOf(400)));
    expect(again.graph.sides).toEqual(graph.sides);
    expect(again.graph.refiners).toEqual(graph.refiners);
    expect(again.table.sides).toEqual(table.sides);
    const some = recordsOf(400);
    const long = Array.from({ length: 80 }, () => some);
    const many = await learnHashFunctions(sourceOf(long.flat()));
    const tokens = many.heldOut.reduce((sum, { encoder }) => sum + encoder.tokens.length, 0);
    expect(tokens).toBeGreaterThan(10_000);
    expect(tokens).toBeLessThan(34_000);
  });

  it('opens as it was saved', () => {
    const path = freshPath();
    writeGraph(path, graph);
    const read = readGraph(path, SHAPE);
    expect(read.sides).toEqual(graph.sides);
    expect(read.refiners).toEqual(graph.refiners);
    expect(read.refiner('lstm')).toBeUndefined();
  });

  it.each([
    ['fewer layers', { ...SHAPE, decoderLayers: 1 }, 'expected F32 [1, 8], found F32 [2, 8]'],
    ['more experts', { ...SHAPE, experts: 16 }, 'expected F32 [3, 16], found F32 [3, 8]'],
  ])('refuses a model of %s', (_, shape, message) => {
    const path = freshPath();
    writeGraph(path, graph);
    expect(() => readGraph(path, shape)).toThrow(
      expect.objectContaining({ code: 'checkpoint_invalid', message: expect.stringContaining(message) }),
    );
  });

  it('refuses a damaged file or reads one whose refiner stays sound', () => {
    const path = freshPath();
    writeGraph(path, graph);
    const whole = readFileSync(path);
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), (at, byte) => {
        const damaged = Buffer.from(whole);
        damaged[at] = byte;
        writeFileSync(path, damaged);
        try {
          const experts = Uint16Array.of(1, 2, 3, 4, 5, 6);
          const [alpha, chance] = [new Float32Array(6), new Float32Array(6)];
          readGraph(path, SHAPE)
            .refiner('token')
            ?.refine('encoder', 0, Uint16Array.of(3), 3, 1, 2, experts, alpha, chance);
          expect(experts.every((e) => e < 8)).toBe(true);
        } catch (error) {
          expect(error).toMatchObject({ code: 'checkpoint_invalid' });
        }
      }),
      { numRuns: 300 },
    );
  });
});
