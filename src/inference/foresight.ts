/** Plans the passes of one engine from the tables at hand. */
import type { Engine, ResidencyPlan } from '../native/addon-types.js';
import type { QueueConsumer } from '../predictor/hash-table-queue.js';
import type { ResidentFlag } from '../predictor/resident-flag.js';
import type { EvictionPolicy } from './eviction/index.js';
import { batchVisits, openTables, visitsOf } from './expected-visits.js';
import type { Foreknowledge } from './foreknowledge.js';
import type { QueuedBatch } from './messages.js';
import { planResidency } from './residency-planner.js';

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
  plan({ own, behind }: Pick<Foreknowledge, 'own' | 'behind'>): ResidencyPlan | null {
    const { engine, policy, queue, resident } = this.#options;
    if (resident.all) return null;
    const upcoming = queue.waiting().map(({ tables }) => openTables(tables));
    const next = upcoming[0]?.encoder;
    return planResidency({
      visits: [
        ...own,
        ...behind,
        ...upcoming.flatMap((tables) => batchVisits(tables, this.#decoderFirstLayer)),
      ],
      passVisits: own.length,
      // Further ahead a prefetch hides no more, and is more often wrong.
      prefetchVisits: own.length + behind.length + visitsOf(next ?? null, 0).length,
      residency: engine.residency(),
      policy,
    });
  }
}
