import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TABLES, type TableKind, withTables } from '../../src/replay/tables.js';
import { VisitHistory } from '../../src/replay/visit-history.js';
import { singles, traceOf } from './small-traces.js';

const EXPERTS = 4;

function needsOf(kind: TableKind, steps: readonly number[], lookahead: number): number[][] {
  return [...withTables(singles(steps, EXPERTS), kind, lookahead)].map(({ passes }) => [
    ...passes[0]!.own[0]!.need,
  ]);
}

describe('tables', () => {
  it('true ones name what is needed, shuffled ones as many others', () => {
    const trace = traceOf([[[0, 2], [1]]], EXPERTS);
    const [right] = withTables(trace, 'true', 0);
    expect(right!.passes[0]!.own.map(({ firstId, need }) => [firstId, ...need])).toEqual([
      [0, 1, 0, 1, 0],
      [4, 0, 1, 0, 0],
    ]);
    const [wrong] = withTables(trace, 'shuffled', 0);
    const [first, second] = wrong!.passes[0]!.own;
    expect([...first!.need].filter((chance) => chance === 1)).toHaveLength(2);
    expect([...second!.need].filter((chance) => chance === 1)).toHaveLength(1);
    expect(second!.need[1]).toBe(0);
  });

  it('predicted ones know no batch that has not run when they are made', () => {
    const steps = fc.array(fc.nat(EXPERTS - 1), { minLength: 2, maxLength: 10 });
    fc.assert(
      fc.property(steps, fc.nat(3), fc.nat(9), (all, lookahead, cut) => {
        const at = cut % all.length;
        const other = all.map((expert, i) => (i >= at ? (expert + 1) % EXPERTS : expert));
        for (const kind of TABLES.slice(2)) {
          const [before, after] = [needsOf(kind, all, lookahead), needsOf(kind, other, lookahead)];
          const same = at + lookahead + 1;
          expect(after.slice(0, same)).toEqual(before.slice(0, same));
        }
      }),
    );
  });

  it('of a batch with several passes tell of the later ones too', () => {
    const trace = traceOf([[[0]], [[1]]], EXPERTS);
    const joined = { ...trace, batches: [{ passes: trace.batches.flatMap(({ passes }) => passes) }] };
    const [batch] = withTables(joined, 'true', 1);
    const [first, second] = batch!.passes;
    expect([...first!.behind[0]!.need]).toEqual([0, 1, 0, 0]);
    expect(second!.behind).toEqual([]);
    expect(batch!.forecast).toHaveLength(2);
  });
});

describe('the history of a layer', () => {
  const historyOf = (turns: readonly (readonly number[])[], lag = 1) => {
    const history = new VisitHistory(EXPERTS, lag);
    for (const needed of turns) history.learn(needed);
    return history;
  };

  it('says nothing before the first turn', () => {
    for (const kind of ['repeat', 'frequency', 'transition'] as const) {
      expect([...historyOf([]).chances(kind)]).toEqual([0, 0, 0, 0]);
    }
  });

  it('counts how often an expert is needed', () => {
    // A share of 1/4 and one imagined turn: (3 + 1/4) / (4 + 1), (1 + 1/4) / 5, 1/4 / 5.
    const [often, once, never] = historyOf([[0], [0], [1], [0]]).chances('frequency');
    expect([often, once, never].map((chance) => Number(chance!.toFixed(6)))).toEqual([0.65, 0.25, 0.05]);
  });

  it('counts how often what was needed is needed again', () => {
    // Again: 1 of 3; anew: 2 of 9.
    const [, , , last] = historyOf([[0], [0], [1], [3]]).chances('repeat');
    const [other] = historyOf([[0], [0], [1], [3]]).chances('repeat');
    expect(last).toBeCloseTo((1 + 0.25) / (3 + 1));
    expect(other).toBeCloseTo((2 + 0.25) / (9 + 1));
  });

  it('learns what follows what', () => {
    const turns = Array.from({ length: 20 }, (_, i) => [i % 2]);
    const chances = historyOf([...turns, [0]]).chances('transition');
    expect(chances[1]).toBeGreaterThan(0.8);
    expect(chances[0]).toBeLessThan(0.2);
    // Two turns later it is the same again.
    expect(historyOf([...turns, [0]], 2).chances('transition')[0]).toBeGreaterThan(0.8);
  });
});
