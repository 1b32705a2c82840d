/** Builds the tables of batches: what the hash-building thread does with each. */
import type { PredictorInput } from '../native/addon-types.js';
import type { BuilderStats } from './builder-stats.js';
import { fillNeed } from './expert-need.js';
import { type HashFunction, layersOf, type RoutingShape, type Side, tableKind } from './hash-function.js';
import {
  createHashTable,
  type HashTable,
  TABLE_FAILED,
  TABLE_K,
  TABLE_PENDING,
  TABLE_READY,
} from './hash-table.js';

export interface BatchInput {
  id: number;
  /** The tables route: none is left out, however late. */
  required: boolean;
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
  onError: (error: unknown) => void;
  /** Milliseconds. */
  clock?: () => number;
}

/** So many tables in a row that nobody could use, or so long over them, and the next ones are not even begun. */
const PATIENCE = 8;
const PATIENCE_MS = 100;
/** Least pause, as a multiple of the time the last table took; it bounds what building in vain can cost. */
const PAUSE = 16;
/** A pause doubles this often at most. */
const DOUBLINGS = 6;

export class TableBuilder {
  readonly #options: TableBuilderOptions;
  readonly #clock: () => number;
  #lostInARow = 0;
  #lostMs = 0;
  #pauses = 0;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  constructor(options: TableBuilderOptions) {
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
  }

  /** Empty tables of a batch, or null when it is better to run without. */
  begin(batch: BatchInput): PendingTables | null {
    if (!batch.required && this.#clock() < this.#pausedUntil) {
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
    const begin = this.#clock();
    const { stats } = this.#options;
    const settled =
      this.#fill('encoder', batch, tables.encoder) &&
      (tables.decoder === null || this.#fill('decoder', batch, tables.decoder));
    const tookMs = this.#clock() - begin;
    stats.add('seconds', tookMs / 1000);
    if (settled && tables.encoder.state === TABLE_READY) {
      stats.add('ready', 1);
      this.#lostInARow = 0;
      this.#lostMs = 0;
      this.#pauses = 0;
      return;
    }
    stats.add(settled ? 'failed' : 'abandoned', 1);
    this.#lostInARow += 1;
    this.#lostMs += tookMs;
    if (this.#lostInARow < PATIENCE && this.#lostMs < PATIENCE_MS) return;
    this.#pausedUntil = this.#clock() + tookMs * PAUSE * 2 ** this.#pauses;
    this.#pauses = Math.min(this.#pauses + 1, DOUBLINGS);
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

  /** False when the table was abandoned meanwhile. */
  #fill(side: Side, batch: BatchInput, table: HashTable): boolean {
    if (table.state !== TABLE_PENDING) return false;
    const { hashFunction, onError } = this.#options;
    let filled = false;
    try {
      const { experts, alpha, chance, k } = table;
      filled = hashFunction.fill(side, batch[side]!, k, experts, alpha, chance);
      if (filled) fillNeed(table);
      else onError(new Error(cannotSay(hashFunction.name, side, batch.id)));
    } catch (error) {
      filled = false;
      onError(error);
    }
    return table.settle(filled ? TABLE_READY : TABLE_FAILED);
  }
}

function cannotSay(name: string, side: Side, batch: number): string {
  const why =
    name === 'replay' ? 'it was not recorded' : 'its output is not finite, or it has no such network';
  return `${name} cannot name the experts of batch ${batch} in the ${side}: ${why}`;
}
