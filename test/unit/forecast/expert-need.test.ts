import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fillNeed } from '../../../src/forecast/expert-need.js';
import { NO_EXPERT } from '../../../src/native/addon-types.js';
import { createHashTable } from '../../../src/protocol/hash-table.js';

const E = 6;

function table(layers: number, tokens: number, k: number, experts: number[]) {
  const made = createHashTable({
    batchId: 1,
    layers,
    tokens,
    k,
    expertsPerLayer: E,
  });
  made.experts.set(experts);
  return made;
}

describe('expert need', () => {
  it('is the chance per layer that at least one token goes to the expert', () => {
    const made = table(2, 2, 2, [3, 1, 3, NO_EXPERT, 0, 3, 5, 0]);
    made.chance.set(Float32Array.of(0.5, 0.25, 0.5, 0, 0.5, 0.125, 0.75, 0.25));
    fillNeed(made);
    expect([...made.need]).toEqual([0, 0.25, 0, 0.75, 0, 0, 0.625, 0, 0, 0.125, 0, 0.75]);
  });

  it('is 1 for an expert of chance 1 and 0 for an expert that no token lists', () => {
    const made = createHashTable({
      batchId: 1,
      layers: 1,
      tokens: 3,
      k: 1,
      expertsPerLayer: E,
    });
    made.experts.set([4, NO_EXPERT, 4]);
    // The chance of an entry without an expert is ignored.
    made.chance.set(Float32Array.of(1, 1, 1));
    fillNeed(made);
    expect([...made.need]).toEqual([0, 0, 0, 0, 1, 0]);
  });

  it('overwrites earlier values', () => {
    const made = table(3, 1, 1, [0, 1, 2]);
    made.need.fill(9);
    made.chance.fill(0.5);
    fillNeed(made);
    expect([...made.need]).toEqual([0.5, 0, 0, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0.5, 0, 0, 0]);
  });

  it('is 1 for the first k experts of a token if tables route, whatever their chance', () => {
    const made = table(2, 2, 2, [3, 1, 3, NO_EXPERT, NO_EXPERT, NO_EXPERT, 5, 0]);
    made.chance.fill(0.01);
    made.need.fill(9);
    fillNeed(made, 1);
    expect([...made.need]).toEqual([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    fillNeed(made, 4);
    expect([...made.need]).toEqual([0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1]);
  });

  it('grows with every token that lists the expert and stays a probability', () => {
    const rows = fc.array(fc.tuple(fc.nat(E - 1), fc.float({ min: 0, max: 1, noNaN: true })), {
      minLength: 1,
      maxLength: 300,
    });
    fc.assert(
      fc.property(rows, (entries) => {
        const need = (some: typeof entries) => {
          const made = table(
            1,
            some.length,
            1,
            some.map(([e]) => e),
          );
          made.chance.set(some.map(([, p]) => p));
          fillNeed(made);
          return made.need;
        };
        const [all, fewer] = [need(entries), need(entries.slice(1))];
        for (let e = 0; e < E; e++) {
          expect(all[e]).toBeGreaterThanOrEqual(fewer[e]!);
          expect(all[e]).toBeLessThanOrEqual(1);
        }
        const [expert, chance] = entries[0]!;
        expect(all[expert]).toBeGreaterThanOrEqual(chance - 1e-6);
      }),
    );
  });
});
