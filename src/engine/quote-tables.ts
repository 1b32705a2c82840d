/** Has the predictor name the experts of a request that is quoted, and counts those that are not on the device. */
import { setTimeout as delay } from 'node:timers/promises';
import { clockMs } from '../clock.js';
import type { ModelShape } from '../native/addon-types.js';
import { firstMoeLayer } from '../native/model-shape.js';
import type { ControlReply } from '../protocol/engine-messages.js';
import {
  type BatchTables,
  openHashTable,
  TABLE_ABANDONED,
  TABLE_PENDING,
  TABLE_READY,
} from '../protocol/hash-table.js';
import type { PreparedRequest, PromptBatch } from '../protocol/inference-messages.js';
import type { KnownNeed } from '../quote/estimate.js';

/** Longest wait for the tables. */
const WAIT_MS = 100;

interface QuoteTablesOptions {
  shape: ModelShape;
  /** Of one expert, by MoE layer. */
  blockBytes: readonly number[];
  /** Begins to fill the tables; null where they do not pay. */
  build: (batch: PromptBatch) => BatchTables | null;
  /** Asks the inference thread for the state of experts. `replied` gets the answer. */
  ask: () => void;
}

type Layers = Extract<ControlReply, { kind: 'experts' }>['layers'];

export class QuoteTables {
  readonly #options: QuoteTablesOptions;
  readonly #waiting: ((layers: Layers) => void)[] = [];

  constructor(options: QuoteTablesOptions) {
    this.#options = options;
  }

  /** Undefined where no table says so. */
  async needOf(inputs: readonly Pick<PreparedRequest, 'tokens' | 'work'>[]): Promise<KnownNeed | undefined> {
    const requests = inputs.map(({ tokens, work }) => {
      return { item: -1, job: -1, jobItems: inputs.length, routingK: 0, owner: '', tokens, work };
    });
    const built = this.#options.build({ id: 0, routingK: 0, requests });
    if (built === null) return undefined;
    const tables = built.map((buffer) => buffer && openHashTable(buffer));
    const until = clockMs() + WAIT_MS;
    while (tables.some((table) => table?.state === TABLE_PENDING) && clockMs() < until) await delay(1);
    for (const table of tables) table?.settle(TABLE_ABANDONED);
    if (tables.some((table) => table !== null && table.state !== TABLE_READY)) return undefined;
    const { shape, blockBytes, ask } = this.#options;
    const layers = await new Promise<Layers>((resolve) => {
      this.#waiting.push(resolve);
      ask();
    });
    const known = { needed: 0, bytes: 0 };
    for (const [stack, table] of tables.entries()) {
      const first = firstMoeLayer(shape, stack);
      for (let layer = 0; layer < (table?.layers ?? 0); layer += 1)
        for (const { index, state } of layers[first + layer]!.experts) {
          const need = table!.need[layer * table!.expertsPerLayer + index]!;
          known.needed += need;
          if (state === 'absent') known.bytes += need * blockBytes[first + layer]!;
        }
    }
    return known;
  }

  replied({ layers }: Pick<Extract<ControlReply, { kind: 'experts' }>, 'layers'>): void {
    for (const resolve of this.#waiting.splice(0)) resolve(layers);
  }
}
