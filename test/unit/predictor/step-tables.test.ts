import { describe, expect, it } from 'vitest';
import { NO_EXPERT } from '../../../src/native/addon-types.js';
import { type DecoderStepper, namedExperts } from '../../../src/predictor/hash-function.js';
import { StepTables } from '../../../src/predictor/step-tables.js';
import { TokenTableLearner } from '../../../src/predictor/training/token-table-learning.js';
import { TABLE_READY } from '../../../src/protocol/hash-table.js';
import { recordsOf, SHAPE } from './routing-fixture.js';

const learner = new TokenTableLearner(SHAPE);
for (const record of recordsOf(60)) learner.add(record);
const token = learner.finish();
const LAYERS = SHAPE.stacks[1]!.layers;
const CONTEXT = Int32Array.of(3, 4);
const NO_OFFSETS = new Int32Array();

/**
 * Step tables over a real token table. `before` runs before each step, with all tokens of its sequences, and may fail
 * it.
 */
function stepTables(before: (tokens: Int32Array) => boolean = () => true) {
  let now = 0;
  const errors: unknown[] = [];
  const sequences = new Map<number, number[]>();
  const stepper: DecoderStepper = {
    begin: (id, _context, fed) => sequences.set(id, [...fed]),
    fork: (from, id) => sequences.set(id, [...sequences.get(from)!]),
    step(ids, tokens, into) {
      ids.forEach((id, i) => {
        sequences.get(id)!.push(tokens[i]!);
      });
      const all = Int32Array.from([...ids].flatMap((id) => sequences.get(id)!));
      return before(all) && token.fill(1, { tokens, offsets: NO_OFFSETS }, into);
    },
    end: (id) => sequences.delete(id),
  };
  const tables = new StepTables({
    stepper,
    shape: SHAPE,
    onError: (error) => errors.push(error),
    clock: () => now,
  });
  const wait = (ms: number) => {
    now += ms;
  };
  return { tables, errors, wait, stepper };
}

/** First expert of the token table's row for `id`, layer by layer. */
function bestOf(id: number): number[] {
  const named = namedExperts(LAYERS, 1);
  token.fill(1, { tokens: Int32Array.of(id), offsets: NO_OFFSETS }, named);
  return [...named.experts];
}

const firsts = (table: { experts: Uint16Array; tokens: number; k: number; layers: number }, row: number) =>
  Array.from({ length: table.layers }, (_, l) => table.experts[(l * table.tokens + row) * table.k]);

describe('step tables', () => {
  it("predict the experts of each sequence's step", () => {
    const { tables } = stepTables();
    tables.begin(1, CONTEXT, false);
    tables.begin(2, CONTEXT, false);
    const table = tables.step([2, 1], [5, 9], 0)!;
    expect([table.state, table.tokens]).toEqual([TABLE_READY, 2]);
    expect([firsts(table, 0), firsts(table, 1)]).toEqual([bestOf(5), bestOf(9)]);
    expect(table.need.some((need) => need > 0)).toBe(true);
  });

  it('know a copy of a sequence, which goes on by itself', () => {
    const seen: number[][] = [];
    const { tables } = stepTables((tokens) => {
      seen.push([...tokens]);
      return true;
    });
    tables.begin(1, CONTEXT, false);
    tables.step([1], [5], 0);
    tables.fork(1, 2);
    tables.fork(7, 8);
    const table = tables.step([2, 1], [9, 6], 0)!;
    expect(seen.at(-1)).toEqual([5, 9, 5, 6]);
    expect([firsts(table, 0), firsts(table, 1)]).toEqual([bestOf(9), bestOf(6)]);
    tables.end(1);
    expect(firsts(tables.step([2], [3], 0)!, 0)).toEqual(bestOf(3));
    expect(tables.step([8], [3], 0)).toBeNull();
  });

  it('need the experts they route to with certainty', () => {
    const { tables } = stepTables();
    tables.begin(1, CONTEXT, true);
    const table = tables.step([1], [5], 1)!;
    bestOf(5).forEach((best, layer) => {
      const need = [...table.need.subarray(layer * SHAPE.experts, (layer + 1) * SHAPE.experts)];
      expect(need).toEqual(need.map((_, e) => (e === best ? 1 : 0)));
    });
  });

  it('list no expert for a sequence that was not begun, and are null if tables must route it', () => {
    const { tables } = stepTables();
    tables.begin(2, CONTEXT, false);
    const table = tables.step([1, 2], [5, 9], 0)!;
    expect(firsts(table, 0)).toEqual(Array(LAYERS).fill(NO_EXPERT));
    expect(firsts(table, 1)).toEqual(bestOf(9));
    expect(tables.step([1, 2], [5, 9], 1)).toBeNull();
    expect(tables.step([7], [5], 0)).toBeNull();
  });

  it('do not predict a sequence that the predictor refuses to begin', () => {
    const { tables, errors, stepper } = stepTables();
    stepper.begin = () => {
      throw new Error('no room');
    };
    const ended: number[] = [];
    stepper.end = (sequence) => ended.push(sequence);
    tables.begin(1, CONTEXT, false);
    expect(errors).toHaveLength(1);
    // What it has read of the sequence is forgotten.
    expect(ended).toEqual([1]);
    expect(tables.step([1], [5], 0)).toBeNull();
    tables.end(1);
  });

  it('begin a sequence once', () => {
    const { tables, stepper } = stepTables();
    const begun: number[][] = [];
    stepper.begin = (sequence, context) => begun.push([sequence, ...context]);
    tables.begin(1, CONTEXT, false);
    tables.begin(1, Int32Array.of(9), false);
    tables.end(1);
    tables.begin(1, Int32Array.of(9), false);
    expect(begun).toEqual([
      [1, ...CONTEXT],
      [1, 9],
    ]);
  });

  it('drop sequences that could not be predicted, and continue with later ones', () => {
    const { tables } = stepTables((tokens) => !tokens.includes(13));
    tables.begin(1, CONTEXT, false);
    expect(tables.step([1], [13], 0)).toBeNull();
    expect(tables.step([1], [5], 0)).toBeNull();
    tables.begin(2, CONTEXT, false);
    expect(firsts(tables.step([1, 2], [6, 5], 0)!, 1)).toEqual(bestOf(5));
    tables.end(1);
    tables.end(2);
    expect(tables.step([2], [5], 0)).toBeNull();
  });

  it('survive a function that throws, and report the error', () => {
    const { tables, errors } = stepTables(() => {
      throw new Error('broken');
    });
    tables.begin(1, CONTEXT, false);
    expect(tables.step([1], [5], 0)).toBeNull();
    expect(errors).toEqual([new Error('broken')]);
  });

  it('pause if they take too long compared with a step, except where tables route', () => {
    const { tables, wait } = stepTables(() => {
      wait(30);
      return true;
    });
    tables.stepTook(10, undefined);
    const lives = (id: number, required: boolean) => {
      tables.begin(id, CONTEXT, required);
      return tables.step([id], [5], required ? 1 : 0) !== null;
    };
    expect([1, 2, 3, 4].map((id) => lives(id, false))).toEqual([true, true, true, true]);
    expect(lives(5, false)).toBe(false);
    expect(tables.step([4], [5], 0)).toBeNull();
    expect(lives(6, true)).toBe(true);
    wait(30 * 16 * 2 + 1);
    expect(lives(7, false)).toBe(true);
  });

  it('count the time of beginning a sequence with its steps, and forget it with the sequence', () => {
    const { tables, wait, stepper } = stepTables();
    const begin = stepper.begin.bind(stepper);
    stepper.begin = (...all) => {
      wait(6_400);
      begin(...all);
    };
    tables.stepTook(100, undefined);
    tables.begin(1, CONTEXT, false);
    // Each step is charged with a 64th of what is left: 100 ms at first, of which it may take 20.
    for (let i = 0; i < 2; i += 1) tables.step([1], [5], 0);
    expect(tables.paused).toBe(true);
    expect(tables.step([1], [5], 0)).toBeNull();
    stepper.begin = begin;
    wait(100 * 16 * 2 + 1);
    tables.begin(2, CONTEXT, false);
    for (let i = 0; i < 40; i += 1) expect(tables.step([2], [5], 0)).not.toBeNull();
  });

  it('go on with what a sequence was fed', () => {
    const seen: number[][] = [];
    const { tables } = stepTables((tokens) => {
      seen.push([...tokens]);
      return true;
    });
    tables.begin(1, CONTEXT, false, Int32Array.of(5, 6));
    expect(firsts(tables.step([1], [9], 0)!, 0)).toEqual(bestOf(9));
    expect(seen).toEqual([[5, 6, 9]]);
  });

  it('do not pause if they take a fifth of a step', () => {
    const { tables, wait } = stepTables(() => {
      wait(30);
      return true;
    });
    tables.stepTook(150, undefined);
    tables.begin(1, CONTEXT, false);
    for (let i = 0; i < 40; i++) expect(tables.step([1], [5], 0)).not.toBeNull();
  });

  it('pause if they take longer than they save', () => {
    const { tables, wait } = stepTables(() => {
      wait(30);
      return true;
    });
    const step = (saved: number) => {
      tables.begin(1, CONTEXT, false);
      const table = tables.step([1], [5], 0);
      tables.stepTook(1000, saved);
      return table !== null;
    };
    expect(Array.from({ length: 40 }, () => step(0.04))).not.toContain(false);
    expect(Array.from({ length: 40 }, () => step(0.02))).toContain(false);
  });
});
