import { afterAll, describe, expect, it } from 'vitest';
import { BuilderStats } from '../../../src/predictor/builder-stats.js';
import { ReplayFunction } from '../../../src/predictor/functions/replay.js';
import type { HashFunction } from '../../../src/predictor/hash-function.js';
import {
  NO_EXPERT,
  openHashTable,
  TABLE_ABANDONED,
  TABLE_EXACT,
  TABLE_FAILED,
  TABLE_PENDING,
  TABLE_PREDICTED,
  TABLE_READY,
} from '../../../src/predictor/hash-table.js';
import { type BatchInput, TABLE_K, TableBuilder } from '../../../src/predictor/table-builder.js';
import { inputOf, routedOf } from '../../../src/predictor/training/hit-rates.js';
import { TokenTableLearner } from '../../../src/predictor/training/token-table-learning.js';
import { recordOf, recordsOf, removeFiles, SHAPE, sourceOf } from './routing-fixture.js';

afterAll(removeFiles);

const records = recordsOf(60);
const learner = new TokenTableLearner(SHAPE);
for (const record of records) learner.add(record);
const token = learner.finish();
const replay = await ReplayFunction.load(sourceOf(records));

function builderOf(hashFunction: HashFunction, always = false) {
  const stats = new BuilderStats();
  const errors: unknown[] = [];
  const builder = new TableBuilder({
    hashFunction,
    shape: SHAPE,
    stats,
    always,
    onError: (error) => errors.push(error),
  });
  return { builder, stats, errors };
}

function batchOf(some = records.slice(0, 3), id = 5): BatchInput {
  return { id, encoder: inputOf(some, 'encoder'), decoder: inputOf(some, 'decoder') };
}

describe('table builder', () => {
  it('shows its tables pending, and fills them as the token table says', () => {
    const { builder, stats } = builderOf(token);
    const batch = batchOf();
    const tables = builder.begin(batch)!;
    const tokens = batch.encoder.tokens.length;
    for (const table of [tables.encoder, tables.decoder!]) {
      expect(table).toMatchObject({ batchId: 5, k: TABLE_K, expertsPerLayer: 8, kind: TABLE_PREDICTED });
      expect(table.state).toBe(TABLE_PENDING);
    }
    builder.fill(batch, tables);
    const read = openHashTable(tables.encoder.buffer);
    expect([read.state, tables.decoder!.state]).toEqual([TABLE_READY, TABLE_READY]);
    const entries = 3 * tokens * TABLE_K;
    const said = {
      experts: new Uint16Array(entries),
      alpha: new Float32Array(entries),
      chance: new Float32Array(entries),
    };
    token.fill('encoder', batch.encoder, TABLE_K, said.experts, said.alpha, said.chance);
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
    expect(stats.figures().seconds).toBeGreaterThan(0);
  });

  it('makes exact tables of recorded routing: the experts of the batch are needed, all others not', () => {
    const { builder } = builderOf(replay);
    // A batch of more tokens before: what it left in the scratch space must not show.
    const long = batchOf(records.slice(10, 30));
    builder.fill(long, builder.begin(long)!);
    const batch = batchOf();
    const tables = builder.begin(batch)!;
    builder.fill(batch, tables);
    for (const [side, table, layers] of [
      ['encoder', tables.encoder, 3],
      ['decoder', tables.decoder!, 2],
    ] as const) {
      expect([table.kind, table.state]).toEqual([TABLE_EXACT, TABLE_READY]);
      const routed = routedOf(records.slice(0, 3), side, layers);
      const needed = new Float32Array(layers * 8);
      routed.forEach((expert, i) => {
        needed[Math.floor(i / table.tokens) * 8 + expert] = 1;
      });
      expect(table.need).toEqual(needed);
      expect([...table.experts.subarray(0, TABLE_K)]).toEqual([
        routed[0],
        ...Array(TABLE_K - 1).fill(NO_EXPERT),
      ]);
    }
  });

  it('fails what the function cannot say, and begins the next batch', () => {
    const { builder, stats, errors } = builderOf(replay);
    const unknown = batchOf([recordOf(0, [9, 9, 9], [0])]);
    const tables = builder.begin(unknown)!;
    builder.fill(unknown, tables);
    expect([tables.encoder.state, tables.decoder!.state]).toEqual([TABLE_FAILED, TABLE_FAILED]);
    const known = { ...batchOf(), decoder: null };
    const next = builder.begin(known)!;
    builder.fill(known, next);
    expect([next.encoder.state, next.decoder]).toEqual([TABLE_READY, null]);
    expect(stats.figures()).toMatchObject({ ready: 1, failed: 1 });
    expect(errors).toEqual([]);
  });

  it('fails a table whose function throws, and tells it', () => {
    const { builder, stats, errors } = builderOf(token);
    const broken = { ...batchOf(), encoder: { tokens: undefined as never, offsets: Int32Array.of(0) } };
    const tables = builder.begin(batchOf())!;
    builder.fill(broken, tables);
    expect(tables.encoder.state).toBe(TABLE_FAILED);
    expect(errors).toEqual([expect.any(TypeError)]);
    expect(stats.figures()).toMatchObject({ ready: 0, failed: 1 });
  });

  it('leaves a table alone that its reader gave up, and counts it', () => {
    const { builder, stats } = builderOf(token);
    const batch = batchOf();
    const tables = builder.begin(batch)!;
    expect(tables.encoder.settle(TABLE_ABANDONED)).toBe(true);
    builder.fill(batch, tables);
    expect(tables.encoder.state).toBe(TABLE_ABANDONED);
    expect(tables.encoder.experts.every((expert) => expert === NO_EXPERT)).toBe(true);
    expect(stats.figures()).toMatchObject({ ready: 0, failed: 0, abandoned: 1 });
  });

  it('pauses for twice as long with each late table after the eighth in a row, at most 64 batches', () => {
    const { builder, stats } = builderOf(token);
    expect(pauses(builder, 16)).toEqual([...Array(7).fill(0), 1, 2, 4, 8, 16, 32, 64, 64, 64]);
    expect(stats.figures()).toMatchObject({ abandoned: 16, skipped: 255 });
  });

  it('starts again from patience after one table in time', () => {
    const { builder } = builderOf(token);
    expect(pauses(builder, 9)).toEqual([...Array(7).fill(0), 1, 2]);
    const batch = batchOf();
    const tables = builder.begin(batch)!;
    builder.fill(batch, tables);
    expect(tables.encoder.state).toBe(TABLE_READY);
    expect(pauses(builder, 8)).toEqual([...Array(7).fill(0), 1]);
  });

  it('never skips where a batch cannot run without', () => {
    const { builder, stats } = builderOf(token, true);
    expect(pauses(builder, 12)).toEqual(Array(12).fill(0));
    expect(stats.figures()).toMatchObject({ abandoned: 12, skipped: 0 });
  });
});

/** Batches skipped after each of `count` tables that come too late. */
function pauses(builder: TableBuilder, count: number): number[] {
  const batch = batchOf();
  return Array.from({ length: count }, () => {
    let tables = builder.begin(batch);
    expect(tables).not.toBeNull();
    tables!.encoder.settle(TABLE_ABANDONED);
    builder.fill(batch, tables!);
    let skipped = 0;
    for (tables = builder.begin(batch); tables === null; tables = builder.begin(batch)) skipped++;
    return skipped;
  });
}
