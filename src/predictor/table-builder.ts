/** Fills the tables of batches. The hash-building thread calls it for each batch with tables. */
import { clockMs } from '../clock.js';
import { fillNeed } from '../forecast/expert-need.js';
import { TableWorth } from '../forecast/table-wait.js';
import type { BuilderStats } from '../protocol/builder-stats.js';
import {
  type HashTable,
  TABLE_ABANDONED,
  TABLE_FAILED,
  TABLE_PENDING,
  TABLE_READY,
} from '../protocol/hash-table.js';
import type { BatchInput } from '../protocol/predictor-messages.js';
import type { HashFunction, RoutingShape } from './hash-function.js';
import type { PendingTables } from './table-maker.js';

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

  constructor(options: TableBuilderOptions) {
    this.#options = options;
    this.#clock = options.clock ?? clockMs;
    this.#worth = new TableWorth(this.#clock);
  }

  /** Fills the tables, unless the batch starts first. */
  fill(batch: BatchInput, tables: PendingTables): void {
    const begin = this.#clock();
    const { stats } = this.#options;
    if (tables[0]?.state === TABLE_ABANDONED) {
      // The batch began while an earlier table was filled, which has been judged.
      stats.add('abandoned', 1);
      return;
    }
    const settled = tables.every((table, stack) => table === null || this.#fill(stack, batch, table));
    const tookMs = this.#clock() - begin;
    const ready = settled && isReady(tables);
    stats.add(ready ? 'ready' : settled ? 'failed' : 'abandoned', 1);
    stats.add('seconds', tookMs / 1000);
    // A table that takes longer than it saves takes more of the cores than it gives back.
    if (ready && tookMs / 1000 <= stats.savedSeconds) this.#worth.kept();
    else this.#worth.lost(tookMs);
    stats.pausedUntilMs = this.#worth.pausedUntilMs;
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
