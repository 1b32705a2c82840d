import { describe, expect, it } from 'vitest';
import { NO_EXPERT } from '../../../src/native/addon-types.js';
import { type HashFunction, namedExperts } from '../../../src/predictor/hash-function.js';
import { TableBuilder } from '../../../src/predictor/table-builder.js';
import { type PendingTables, TableMaker } from '../../../src/predictor/table-maker.js';
import { TokenTableLearner } from '../../../src/predictor/training/token-table-learning.js';
import { BuilderStats } from '../../../src/protocol/builder-stats.js';
import {
  openHashTable,
  TABLE_ABANDONED,
  TABLE_FAILED,
  TABLE_PENDING,
  TABLE_READY,
  tableK,
} from '../../../src/protocol/hash-table.js';
import type { BatchInput } from '../../../src/protocol/predictor-messages.js';
import { SharedFlag } from '../../../src/protocol/shared-flag.js';
import { ALONE, DECODER, ENCODER, inputOf, recordOf, recordsOf, SHAPE } from './routing-fixture.js';

const TABLE_K = tableK(SHAPE);
const records = recordsOf(60);
const learner = new TokenTableLearner(SHAPE);
for (const record of records) learner.add(record);
const token = learner.finish();
/** Predicts nothing. */
const silent: HashFunction = { name: 'lstm', fill: () => false, stepper: () => null, close: () => {} };

/** The maker and the builder of tables, which share their figures. */
function builderOf(hashFunction: HashFunction, shape = SHAPE) {
  const stats = new BuilderStats();
  const resident = new SharedFlag();
  const errors: unknown[] = [];
  const clock = () => now;
  const onError = (error: unknown) => errors.push(error);
  const builder = new TableBuilder({ hashFunction, shape, stats, onError, clock });
  const maker = new TableMaker({
    ...{ shape, stats, resident, clock },
    readsContexts: hashFunction.name !== 'token',
  });
  const begin = (batch: BatchInput) => maker.make(batch, () => batch.inputs)?.tables ?? null;
  return { begin, builder, stats, resident, errors };
}

function batchOf(some = records.slice(0, 3), id = 5, routingK = 0): BatchInput {
  return { id, routingK, inputs: [inputOf(some, ENCODER), inputOf(some, DECODER)] };
}

function withoutLabels(batch: BatchInput): BatchInput {
  return { ...batch, inputs: [batch.inputs[ENCODER]!, null] };
}

describe('table builder', () => {
  it('builds none that would take gigabytes, unless it routes', () => {
    const { begin, stats } = builderOf(token);
    const tokens = new Int32Array(3_000_000);
    const input = { tokens, offsets: Int32Array.of(0, tokens.length) };
    expect(begin({ id: 1, routingK: 0, inputs: [input, null] })).toBeNull();
    expect(stats.figures().skipped).toBe(1);
    expect(begin({ id: 2, routingK: 1, inputs: [input, null] })).not.toBeNull();
  });

  it('builds none while every expert has a slot, unless they route', () => {
    const { begin, resident } = builderOf(token);
    resident.raised = true;
    expect(begin(batchOf())).toBeNull();
    expect(begin(batchOf(undefined, 5, 1))).not.toBeNull();
  });

  it('builds none while prediction is switched off, unless they route', () => {
    const { begin, stats } = builderOf(token);
    stats.offUntilMs = now + 1;
    expect(begin(batchOf())).toBeNull();
    expect(begin(batchOf(undefined, 5, 1))).not.toBeNull();
    now += 1;
    expect(begin(batchOf())).not.toBeNull();
    expect(stats.figures().skipped).toBe(0);
  });

  it('begins no more than a few that are not finished', () => {
    const { begin, builder, stats } = builderOf(token);
    const pending = Array.from({ length: 6 }, () => begin(batchOf()));
    expect(pending.filter((tables) => tables !== null).length).toBe(4);
    expect(stats.figures().skipped).toBe(2);
    builder.fill(batchOf(), pending[0]!);
    expect(begin(batchOf())).not.toBeNull();
  });

  it('builds none that take longer than they save, and tries again now and then', () => {
    const slow: HashFunction = {
      ...silent,
      fill: () => {
        now += 4;
        return true;
      },
    };
    const { begin, builder, stats } = builderOf(slow);
    const build = (batch = batchOf()) => {
      const tables = begin(batch);
      if (tables !== null) builder.fill(batch, tables);
      return tables !== null;
    };
    const many = () =>
      Array.from({ length: 5000 }, () => {
        now += 1;
        return build();
      }).filter(Boolean).length;
    // Nothing is known yet.
    expect(many()).toBe(5000);
    for (let i = 0; i < 60; i++) stats.batchSaved(0.02);
    expect(many()).toBe(5000);
    for (let i = 0; i < 60; i++) stats.batchSaved(0.001);
    const count = many();
    expect(count).toBeGreaterThan(8);
    expect(count).toBeLessThan(25);
    // Tables that route are never left out.
    expect(build(batchOf(undefined, 5, 1))).toBe(true);
    for (let i = 0; i < 60; i++) stats.batchSaved(0.02);
    now += 60_000;
    expect(many()).toBe(5000);
  });

  it('counts the contexts that a network without an encoder predicts too', () => {
    const contextTokens = new Int32Array(3_000_000);
    const contextOffsets = Int32Array.of(0, contextTokens.length);
    const input = { tokens: Int32Array.of(5), offsets: Int32Array.of(0, 1), contextTokens, contextOffsets };
    const begun = (name: 'lstm' | 'token') => {
      const hashFunction: HashFunction = { ...silent, name, fill: () => true };
      return builderOf(hashFunction, ALONE).begin({ id: 1, routingK: 0, inputs: [input] });
    };
    expect(begun('lstm')).toBeNull();
    expect(begun('token')).not.toBeNull();
  });

  it('returns pending tables, and fills them from the token table', () => {
    const { begin, builder, stats } = builderOf(token);
    const batch = batchOf();
    const tables = begin(batch)!;
    const tokens = batch.inputs[ENCODER]!.tokens.length;
    for (const table of [tables[ENCODER]!, tables[DECODER]!]) {
      expect(table).toMatchObject({ batchId: 5, k: TABLE_K, expertsPerLayer: 8 });
      expect(table.state).toBe(TABLE_PENDING);
    }
    builder.fill(batch, tables);
    const read = openHashTable(tables[ENCODER]!.buffer);
    expect([read.state, tables[DECODER]!.state]).toEqual([TABLE_READY, TABLE_READY]);
    const said = namedExperts(3 * tokens, TABLE_K);
    token.fill(ENCODER, batch.inputs[ENCODER]!, said);
    expect(read.experts).toEqual(said.experts);
    expect(read.alpha).toEqual(said.alpha);
    for (let layer = 0; layer < 3; layer++) {
      for (let e = 0; e < 8; e++) {
        let unneeded = 1;
        for (let i = layer * tokens * TABLE_K; i < (layer + 1) * tokens * TABLE_K; i++) {
          if (said.experts[i] === e) unneeded *= 1 - said.chance[i]!;
        }
        expect(read.need[layer * 8 + e]).toBeCloseTo(1 - unneeded, 6);
      }
    }
    expect(stats.figures()).toMatchObject({ ready: 1, failed: 0, abandoned: 0, skipped: 0 });
  });

  it('needs exactly the experts that tables route to', () => {
    const { begin, builder } = builderOf(token);
    for (const routingK of [1, 3]) {
      const batch = batchOf(undefined, 5, routingK);
      const tables = begin(batch)!;
      const encoder = tables[ENCODER]!;
      builder.fill(batch, tables);
      for (let layer = 0; layer < 3; layer++) {
        const routed = new Set<number>();
        for (let t = 0; t < encoder.tokens; t++) {
          const at = (layer * encoder.tokens + t) * TABLE_K;
          for (const expert of encoder.experts.subarray(at, at + routingK)) routed.add(expert);
        }
        const needed = Array.from({ length: 8 }, (_, e) => (routed.has(e) ? 1 : 0));
        expect([...encoder.need.subarray(layer * 8, layer * 8 + 8)]).toEqual(needed);
      }
    }
  });

  it('fails tables that the function cannot predict, and begins the next batch', () => {
    const fill: HashFunction['fill'] = (stack, input, into) =>
      input.tokens[0] !== 9 && token.fill(stack, input, into);
    const { begin, builder, stats, errors } = builderOf({ ...silent, fill });
    const unknown = batchOf([recordOf(0, [9, 9, 9], [9])]);
    const tables = begin(unknown)!;
    builder.fill(unknown, tables);
    expect([tables[ENCODER]!.state, tables[DECODER]!.state]).toEqual([TABLE_FAILED, TABLE_FAILED]);
    const known = withoutLabels(batchOf());
    const next = begin(known)!;
    builder.fill(known, next);
    expect([next[ENCODER]!.state, next[DECODER]]).toEqual([TABLE_READY, null]);
    expect(stats.figures()).toMatchObject({ ready: 1, failed: 1 });
    const why = 'its output is not finite, or it has no such network';
    expect(errors.map(String)).toEqual([
      `Error: lstm cannot name the experts of batch 5 in the encoder: ${why}`,
      `Error: lstm cannot name the experts of batch 5 in the decoder: ${why}`,
    ]);
  });

  it('fails a table whose function throws, and reports the error', () => {
    const { begin, builder, stats, errors } = builderOf(token);
    const broken = {
      ...batchOf(),
      inputs: [{ tokens: undefined as never, offsets: Int32Array.of(0) }, batchOf().inputs[DECODER]!],
    };
    const tables = begin(batchOf())!;
    builder.fill(broken, tables);
    expect(tables[ENCODER]!.state).toBe(TABLE_FAILED);
    expect(errors).toEqual([expect.any(TypeError)]);
    expect(stats.figures()).toMatchObject({ ready: 0, failed: 1 });
  });

  it('leaves a table that its reader abandoned unchanged, and counts it', () => {
    const { begin, builder, stats } = builderOf(token);
    const batch = batchOf();
    const tables = begin(batch)!;
    expect(tables[ENCODER]!.settle(TABLE_ABANDONED)).toBe(true);
    builder.fill(batch, tables);
    expect(tables[ENCODER]!.state).toBe(TABLE_ABANDONED);
    expect(tables[ENCODER]!.experts.every((expert) => expert === NO_EXPERT)).toBe(true);
    expect(stats.figures()).toMatchObject({ ready: 0, failed: 0, abandoned: 1 });
    // It took no time, and says nothing of how long tables take.
    stats.pausedUntilMs = now + 1000;
    const others = Array.from({ length: 20 }, () => begin(batchOf(undefined, 5, 1))!);
    for (const other of others) {
      other[ENCODER]!.settle(TABLE_ABANDONED);
      builder.fill(batch, other);
    }
    expect(stats.pausedUntilMs).toBe(now + 1000);
  });

  it('pauses after eight lost tables in a row for 16 table times, and doubles pauses up to 64-fold', () => {
    const { pauses, stats } = lateBuilder(1);
    expect(pauses(16)).toEqual([...Array(7).fill(0), 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
    expect(stats.figures()).toMatchObject({ abandoned: 16, ready: 0 });
    expect(stats.figures().seconds).toBeCloseTo(0.016, 9);
    expect(stats.figures().skipped).toBeGreaterThan(0);
  });

  it('pauses before the eighth loss if tables are slow', () => {
    expect(lateBuilder(40).pauses(5)).toEqual([0, 0, 640, 1280, 2560]);
    expect(lateBuilder(7000).pauses(1)).toEqual([112_000]);
  });

  it('resets its count of losses after one table in time', () => {
    const { begin, builder, pauses } = lateBuilder(1);
    expect(pauses(9)).toEqual([...Array(7).fill(0), 16, 32]);
    const batch = batchOf();
    const tables = begin(batch)!;
    builder.fill(batch, tables);
    expect(tables[ENCODER]!.state).toBe(TABLE_READY);
    expect(pauses(8)).toEqual([...Array(7).fill(0), 16]);
  });

  it('pauses a function that never predicts, too', () => {
    const { begin, builder, stats } = builderOf(slowed(silent, 50));
    const unknown = batchOf([recordOf(0, [9, 9, 9], [0])]);
    for (let i = 0; i < 3; i++) {
      const tables = begin(unknown);
      if (tables) builder.fill(unknown, tables);
    }
    expect(stats.figures()).toMatchObject({ failed: 1, skipped: 2 });
  });

  it('never skips a batch that tables must route', () => {
    const { pauses, stats } = lateBuilder(1000);
    expect(pauses(12, 1)).toEqual(Array(12).fill(0));
    expect(stats.figures()).toMatchObject({ abandoned: 12, skipped: 0 });
  });
});

let now = 0;

/** Adds `ms` of the test's clock to each call of the function. */
function slowed(inner: HashFunction, ms: number): HashFunction {
  const fill: HashFunction['fill'] = (...args) => {
    now += ms;
    return inner.fill(...args);
  };
  return { ...silent, name: inner.name, fill };
}

/** A builder whose tables take `ms` and are abandoned by their reader in the meantime. */
function lateBuilder(ms: number) {
  let current: PendingTables;
  let next: PendingTables | null = null;
  const late = slowed(token, ms);
  const { begin, builder, stats } = builderOf({
    ...late,
    fill: (...args) => {
      current[ENCODER]!.settle(TABLE_ABANDONED);
      return late.fill(...args);
    },
  });
  /** Returns the pauses in milliseconds after each of `count` lost tables. */
  const pauses = (count: number, routingK = 0) => {
    const batch = batchOf(undefined, 5, routingK);
    return Array.from({ length: count }, () => {
      current = next ?? begin(batch)!;
      builder.fill(batch, current);
      const from = now;
      for (next = begin(batch); next === null; next = begin(batch)) now += 1;
      return now - from;
    });
  };
  return { begin, builder, stats, pauses };
}
