/** Plans the passes of one engine from the tables at hand. */
import type { Engine, Residency, ResidencyPlan, RunStats } from '../native/addon-types.js';
import type { QueueConsumer } from '../predictor/hash-table-queue.js';
import type { ResidentFlag } from '../predictor/resident-flag.js';
import type { EvictionPolicy } from './eviction/index.js';
import { openTables, visitsOf } from './expected-visits.js';
import type { Foreknowledge } from './foreknowledge.js';
import type { QueuedBatch } from './messages.js';
import { PrefetchTrust } from './prefetch-trust.js';
import { type ExpectedVisit, planResidency } from './residency-planner.js';

export interface ForesightOptions {
  engine: Engine;
  policy: EvictionPolicy;
  queue: QueueConsumer<QueuedBatch>;
  resident: ResidentFlag;
}

/**
 * Layers of the next batch that load while this batch's last pass computes. More would evict what this pass still uses:
 * over recorded routing of large models the whole next batch costs up to 15 % more bytes (`sida bench replay`).
 */
const NEXT_BATCH_VISITS = 2;

/** What the tables of a batch in the queue say of its passes. */
export interface UpcomingBatch {
  encoder: readonly ExpectedVisit[];
  decoder: readonly ExpectedVisit[];
}

/** `upcoming`: the batches in the queue, the next one first. */
export function planPass(
  { own, behind }: Pick<Foreknowledge, 'own' | 'behind'>,
  upcoming: readonly UpcomingBatch[],
  residency: Residency,
  policy: EvictionPolicy,
): ResidencyPlan {
  return planResidency({
    visits: [...own, ...behind, ...upcoming.flatMap(({ encoder, decoder }) => [...encoder, ...decoder])],
    passVisits: own.length,
    // Before this batch's last pass, what the next batch would evict is still of more use than it.
    prefetchVisits:
      own.length +
      behind.length +
      (behind.length > 0 ? 0 : Math.min(NEXT_BATCH_VISITS, upcoming[0]?.encoder.length ?? 0)),
    residency,
    policy,
  });
}

export class Foresight {
  readonly #options: ForesightOptions;
  readonly #decoderFirstLayer: number;
  readonly #trust = new PrefetchTrust();

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

  /** Whether tables say anything of use: an expert may have to give way, and they were right of late. */
  get foresees(): boolean {
    return !this.#options.resident.all && this.#trust.trusts;
  }

  /** Passes run without tables that were there, because they had been wrong. */
  get distrusted(): number {
    return this.#trust.distrusted;
  }

  /** What a pass made of its plan. */
  judge(stats: RunStats): void {
    if (!this.#options.resident.all) this.#trust.judge(stats);
  }

  /** Null where every expert has a slot: nothing has to give way. */
  plan({ own, behind }: Pick<Foreknowledge, 'own' | 'behind'>): ResidencyPlan | null {
    const { engine, policy, queue, resident } = this.#options;
    if (resident.all) return null;
    if (!this.#trust.trusts) return planPass({ own: [], behind: [] }, [], engine.residency(), policy);
    const upcoming = queue.waiting().map(({ tables }) => {
      const { encoder, decoder } = openTables(tables);
      return { encoder: visitsOf(encoder, 0), decoder: visitsOf(decoder, this.#decoderFirstLayer) };
    });
    return planPass({ own, behind }, upcoming, engine.residency(), policy);
  }
}
