/** Plans the passes of one engine from the tables at hand. */
import type { Engine, ResidencyPlan } from '../native/addon-types.js';
import type { QueueConsumer } from '../predictor/hash-table-queue.js';
import type { ResidentFlag } from '../predictor/resident-flag.js';
import type { EvictionPolicy } from './eviction/index.js';
import { batchVisits, openTables } from './expected-visits.js';
import type { QueuedBatch } from './messages.js';
import { type ExpectedVisit, planResidency } from './residency-planner.js';

/** What is expected of a pass and of those behind it in the same batch. */
export interface Expectation {
  own: readonly ExpectedVisit[];
  behind: readonly ExpectedVisit[];
}

export const NOTHING_EXPECTED: Expectation = { own: [], behind: [] };

export interface ForesightOptions {
  engine: Engine;
  policy: EvictionPolicy;
  queue: QueueConsumer<QueuedBatch>;
  resident: ResidentFlag;
}

export class Foresight {
  readonly #options: ForesightOptions;
  readonly #decoderFirstLayer: number;

  constructor(options: ForesightOptions) {
    this.#options = options;
    const { moeLayers } = options.engine.shape;
    this.#decoderFirstLayer = moeLayers.filter((layer) => layer.startsWith('encoder.')).length;
    this.slotsChanged();
  }

  /** To be called after a change of budget. */
  slotsChanged(): void {
    const { engine, resident } = this.#options;
    resident.all = engine.usage().slots >= engine.plan.experts;
  }

  /** Null where every expert has a slot: nothing has to give way. */
  plan({ own, behind }: Expectation): ResidencyPlan | null {
    const { engine, policy, queue, resident } = this.#options;
    if (resident.all) return null;
    const upcoming = queue
      .waiting()
      .flatMap(({ tables }) => batchVisits(openTables(tables), this.#decoderFirstLayer));
    return planResidency({
      visits: [...own, ...behind, ...upcoming],
      passVisits: own.length,
      residency: engine.residency(),
      policy,
    });
  }
}
