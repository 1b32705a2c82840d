/** Builds the tables of batches: what the hash-building thread does with each. */
import type { PredictorInput } from '../native/addon-types.js';
import type { BuilderStats } from './builder-stats.js';
import { fillNeed, fillRoutedNeed } from './expert-need.js';
import { type HashFunction, layersOf, type RoutingShape, type Side, tableKind } from './hash-function.js';
import {
  createHashTable,
  type HashTable,
  TABLE_FAILED,
  TABLE_K,
  TABLE_PENDING,
  TABLE_READY,
} from './hash-table.js';
import { Patience } from './patience.js';

export interface BatchInput {
  id: number;
  /** Experts that the tables route each token to, and none is left out then, however late; 0: the routers do. */
  routingK: number;
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

export class TableBuilder {
  readonly #options: TableBuilderOptions;
  readonly #clock: () => number;
  readonly #patience: Patience;

  constructor(options: TableBuilderOptions) {
    this.#options = options;
    this.#clock = options.clock ?? (() => performance.now());
    this.#patience = new Patience(this.#clock);
  }

  /** Empty tables of a batch, or null when it is better to run without. */
  begin(batch: BatchInput): PendingTables | null {
    if (this.#rests(batch)) {
      this.#options.stats.add('skipped', 1);
      return null;
    }
    return this.#tables(batch);
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
    const ready = settled && tables.encoder.state === TABLE_READY;
    stats.add(ready ? 'ready' : settled ? 'failed' : 'abandoned', 1);
    if (ready) this.#patience.kept();
    else this.#patience.lost(tookMs);
  }

  #rests({ routingK }: BatchInput): boolean {
    return routingK === 0 && this.#patience.paused;
  }

  #tables({ id, encoder, decoder }: BatchInput): PendingTables {
    return {
      encoder: this.#table('encoder', id, encoder),
      decoder: decoder && this.#table('decoder', id, decoder),
    };
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
    return table.settle(this.#name(side, batch, table) ? TABLE_READY : TABLE_FAILED);
  }

  #name(side: Side, batch: BatchInput, table: HashTable): boolean {
    const { hashFunction, onError } = this.#options;
    try {
      const { experts, alpha, chance, k } = table;
      if (hashFunction.fill(side, batch[side]!, k, experts, alpha, chance)) {
        needOf(table, batch.routingK);
        return true;
      }
      onError(new Error(cannotSay(hashFunction.name, side, batch.id)));
    } catch (error) {
      onError(error);
    }
    return false;
  }
}

function needOf(table: HashTable, routingK: number): void {
  if (routingK > 0) fillRoutedNeed(table, routingK);
  else fillNeed(table);
}

function cannotSay(name: string, side: Side, batch: number): string {
  const why =
    name === 'replay' ? 'it was not recorded' : 'its output is not finite, or it has no such network';
  return `${name} cannot name the experts of batch ${batch} in the ${side}: ${why}`;
}
