/** Builds the tables of batches: what the hash-building thread does with each. */
import type { PredictorInput } from '../native/addon-types.js';
import type { BuilderStats } from './builder-stats.js';
import { fillNeed } from './expert-need.js';
import { type HashFunction, layersOf, type RoutingShape, type Side, tableKind } from './hash-function.js';
import { createHashTable, type HashTable, TABLE_FAILED, TABLE_PENDING, TABLE_READY } from './hash-table.js';

/** Experts named for each token and layer. */
export const TABLE_K = 4;

export interface BatchInput {
  id: number;
  encoder: PredictorInput;
  /** Decoder tokens known before the batch runs, those of labels to score; null without. */
  decoder: PredictorInput | null;
}

/** Tables in the making; they are the reader's as soon as they exist. */
export interface PendingTables {
  encoder: HashTable;
  decoder: HashTable | null;
}

export interface TableBuilderOptions {
  hashFunction: HashFunction;
  shape: RoutingShape;
  stats: BuilderStats;
  /** Without tables nothing runs: none is skipped, however late. */
  always: boolean;
  onError: (error: unknown) => void;
}

/** So many tables in a row that came too late, and the next ones are not even begun. */
const PATIENCE = 8;
/** Longest run of batches without a table before a late builder tries again: 2 to this. */
const LONGEST_PAUSE = 6;

export class TableBuilder {
  readonly #options: TableBuilderOptions;
  #lateInARow = 0;
  #pause = 0;
  /** Chances of the table in the making; grows to the largest. */
  #chance = new Float32Array(0);

  constructor(options: TableBuilderOptions) {
    this.#options = options;
  }

  /** Empty tables of a batch, or null when it is better to run without. */
  begin(batch: BatchInput): PendingTables | null {
    if (this.#pause > 0 && !this.#options.always) {
      this.#pause -= 1;
      this.#options.stats.add('skipped', 1);
      return null;
    }
    return {
      encoder: this.#table('encoder', batch.id, batch.encoder),
      decoder: batch.decoder && this.#table('decoder', batch.id, batch.decoder),
    };
  }

  /** Fills them, unless the batch is taken up before. */
  fill(batch: BatchInput, tables: PendingTables): void {
    const begin = performance.now();
    const { stats } = this.#options;
    const settled =
      this.#fill('encoder', batch.encoder, tables.encoder) &&
      (tables.decoder === null || this.#fill('decoder', batch.decoder!, tables.decoder));
    stats.add('seconds', (performance.now() - begin) / 1000);
    if (settled) {
      stats.add(tables.encoder.state === TABLE_READY ? 'ready' : 'failed', 1);
      this.#lateInARow = 0;
      return;
    }
    stats.add('abandoned', 1);
    this.#lateInARow += 1;
    const excess = this.#lateInARow - PATIENCE;
    if (excess >= 0) this.#pause = 2 ** Math.min(excess, LONGEST_PAUSE);
  }

  #table(side: Side, batchId: number, { tokens }: PredictorInput): HashTable {
    const { shape, hashFunction } = this.#options;
    return createHashTable({
      batchId,
      layers: layersOf(shape, side),
      tokens: tokens.length,
      k: Math.min(TABLE_K, shape.experts),
      kind: tableKind(hashFunction.name),
      expertsPerLayer: shape.experts,
    });
  }

  #chances(entries: number): Float32Array {
    if (this.#chance.length < entries) this.#chance = new Float32Array(entries);
    return this.#chance.subarray(0, entries);
  }

  /** False when the table was abandoned meanwhile. */
  #fill(side: Side, input: PredictorInput, table: HashTable): boolean {
    if (table.state !== TABLE_PENDING) return false;
    const { hashFunction, onError } = this.#options;
    let filled = false;
    try {
      const chance = this.#chances(table.experts.length);
      filled = hashFunction.fill(side, input, table.k, table.experts, table.alpha, chance);
      if (filled) fillNeed(table, chance);
    } catch (error) {
      filled = false;
      onError(error);
    }
    return table.settle(filled ? TABLE_READY : TABLE_FAILED);
  }
}
