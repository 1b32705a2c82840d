/** Builds the tables of batches. The hash-building thread calls it for each batch. */
import { clockMs } from '../clock.js';
import type { BuilderStats } from '../protocol/builder-stats.js';
import {
  createHashTable,
  type HashTable,
  TABLE_FAILED,
  TABLE_PENDING,
  TABLE_READY,
  tableK,
} from '../protocol/hash-table.js';
import { fillNeed } from './expert-need.js';
import type { HashFunction, HashInput, RoutingShape } from './hash-function.js';
import { TableWorth } from './table-worth.js';

export interface BatchInput {
  id: number;
  /** Experts per token if the tables route; such tables are never skipped or abandoned. 0 if the routers do. */
  routingK: number;
  /** For each stack: the tokens known before the batch runs, or null if there are none. */
  inputs: readonly (HashInput | null)[];
}

/** Limit for a batch's tables and a network's activations. The memory budget includes neither. */
const MOST_BYTES = 128 * 1024 ** 2;

/** Weight of the latest table in the moving average of their time. */
const LATEST = 0.1;
/** What is left of that time after a batch without a table. */
const FORGOTTEN = 0.98;

/** Tables under construction, by stack. Readers may already hold them. */
export type PendingTables = (HashTable | null)[];

interface TableBuilderOptions {
  hashFunction: HashFunction;
  shape: RoutingShape;
  stats: BuilderStats;
  onError: (error: unknown) => void;
  /** In milliseconds. */
  clock?: () => number;
}

export class TableBuilder {
  readonly #options: TableBuilderOptions;
  readonly #clock: () => number;
  readonly #worth: TableWorth;
  /** Of the latest tables; 0 before the first. */
  #usualSeconds = 0;
  /** Whether contexts take time and memory, as they do in a network. */
  readonly #readsContexts: boolean;

  constructor(options: TableBuilderOptions) {
    this.#options = options;
    this.#clock = options.clock ?? clockMs;
    this.#worth = new TableWorth(this.#clock);
    this.#readsContexts = options.hashFunction.name !== 'token';
  }

  get shape(): RoutingShape {
    return this.#options.shape;
  }

  /** Creates empty tables for a batch. Returns null while building is paused or does not pay, or for one too large. */
  begin(batch: BatchInput): PendingTables | null {
    if (
      batch.routingK === 0 &&
      (this.#worth.paused || this.#costsMore() || this.#bytes(batch) > MOST_BYTES)
    ) {
      this.#options.stats.add('skipped', 1);
      return null;
    }
    return batch.inputs.map((input, stack) => input && this.#table(stack, batch.id, input));
  }

  /** Fills the tables, unless the batch starts first. */
  fill(batch: BatchInput, tables: PendingTables): void {
    const begin = this.#clock();
    const { stats } = this.#options;
    const settled = tables.every((table, stack) => table === null || this.#fill(stack, batch, table));
    const tookMs = this.#clock() - begin;
    stats.add('seconds', tookMs / 1000);
    const seconds = tookMs / 1000;
    this.#usualSeconds += this.#usualSeconds === 0 ? seconds : LATEST * (seconds - this.#usualSeconds);
    const ready = settled && isReady(tables);
    stats.add(ready ? 'ready' : settled ? 'failed' : 'abandoned', 1);
    if (ready) this.#worth.kept();
    else this.#worth.lost(tookMs);
  }

  /** Whether a table takes longer than a batch waits for experts: it would take more of the cores than it saves. */
  #costsMore(): boolean {
    const { savable } = this.#options.stats;
    if (savable === undefined || this.#usualSeconds <= savable) return false;
    // The first tables are slow, and cores become free: one is tried now and then.
    this.#usualSeconds *= FORGOTTEN;
    return true;
  }

  #bytes({ inputs }: BatchInput): number {
    const { stacks, experts } = this.#options.shape;
    // Three arrays of the table, and a float for each expert.
    const each = 10 * tableK(this.#options.shape) + 4 * experts;
    return inputs.reduce((sum, input, s) => {
      const { layers, crosses } = stacks[s]!;
      // Without an encoder a sequence continues its context, which is predicted too.
      const context = this.#readsContexts && !crosses ? (input?.contextTokens?.length ?? 0) : 0;
      return sum + ((input?.tokens.length ?? 0) + context) * layers * each;
    }, 0);
  }

  #table(stack: number, batchId: number, { tokens }: HashInput): HashTable {
    const { shape } = this.#options;
    return createHashTable({
      batchId,
      layers: shape.stacks[stack]!.layers,
      tokens: tokens.length,
      k: tableK(shape),
      expertsPerLayer: shape.experts,
    });
  }

  /** Returns false if the table was abandoned in the meantime. */
  #fill(stack: number, batch: BatchInput, table: HashTable): boolean {
    if (table.state !== TABLE_PENDING) return false;
    return table.settle(this.#name(stack, batch, table) ? TABLE_READY : TABLE_FAILED);
  }

  #name(stack: number, batch: BatchInput, table: HashTable): boolean {
    const { hashFunction, onError, shape } = this.#options;
    try {
      if (hashFunction.fill(stack, batch.inputs[stack]!, table)) {
        fillNeed(table, batch.routingK);
        return true;
      }
      const where = `batch ${batch.id} in the ${shape.stacks[stack]!.name}`;
      const why = 'its output is not finite, or it has no such network';
      onError(new Error(`${hashFunction.name} cannot name the experts of ${where}: ${why}`));
    } catch (error) {
      onError(error);
    }
    return false;
  }
}

/** Without the first stack's table, a batch counts as one without tables. */
function isReady([first]: PendingTables): boolean {
  return first?.state === TABLE_READY;
}
