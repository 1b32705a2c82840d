/** Makes the empty tables of batches, where tables pay. The main thread calls it. */
import { clockMs } from '../clock.js';
import type { BuilderStats } from '../protocol/builder-stats.js';
import { createHashTable, type HashTable, tableK } from '../protocol/hash-table.js';
import type { PromptBatch } from '../protocol/inference-messages.js';
import type { StackInputs } from '../protocol/predictor-messages.js';
import type { SharedFlag } from '../protocol/shared-flag.js';
import type { HashInput, RoutingShape } from './hash-function.js';

/** Tables under construction, by stack. Readers may already hold them. */
export type PendingTables = (HashTable | null)[];

/** Limit for a batch's tables and a network's activations. The memory budget includes neither. */
const MOST_BYTES = 128 * 1024 ** 2;

/** Most batches whose tables are unfinished. Further tables would hardly be ready in time. */
const MOST_PENDING = 4;

interface TableMakerOptions {
  shape: RoutingShape;
  stats: BuilderStats;
  /** Raised while every expert has a slot: no expert moves, and only tables that route serve anything. */
  resident: SharedFlag;
  /** Whether contexts take time and memory, as they do in a network. */
  readsContexts: boolean;
  /** In milliseconds. */
  clock?: () => number;
}

export class TableMaker {
  readonly #options: TableMakerOptions;
  readonly #clock: () => number;
  /** Batches with tables so far. */
  #made = 0;

  constructor(options: TableMakerOptions) {
    this.#options = options;
    this.#clock = options.clock ?? clockMs;
  }

  /** Returns null where tables do not pay. `inputsOf` is called for the other batches. */
  make(
    { id, routingK }: Pick<PromptBatch, 'id' | 'routingK'>,
    inputsOf: (shape: RoutingShape) => StackInputs,
  ) {
    const { shape, stats, resident } = this.#options;
    const routes = routingK > 0;
    const now = this.#clock();
    if (!routes && (resident.raised || now < stats.offUntilMs)) return null;
    if (routes || (now >= stats.pausedUntilMs && this.#made - stats.ended < MOST_PENDING)) {
      const inputs = inputsOf(shape);
      if (routes || this.#bytes(inputs) <= MOST_BYTES) {
        this.#made += 1;
        const tables: PendingTables = inputs.map((input, stack) => input && this.#table(stack, id, input));
        return { inputs, tables };
      }
    }
    stats.add('skipped', 1);
    return null;
  }

  #bytes(inputs: StackInputs): number {
    const { shape, readsContexts } = this.#options;
    // Three arrays of the table, and a float for each expert.
    const each = 10 * tableK(shape) + 4 * shape.experts;
    return inputs.reduce((sum, input, s) => {
      const { layers, crosses } = shape.stacks[s]!;
      // Without an encoder a sequence continues its context, which is predicted too.
      const context = readsContexts && !crosses ? (input?.contextTokens?.length ?? 0) : 0;
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
}
