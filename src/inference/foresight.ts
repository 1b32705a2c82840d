/** Plans the passes of one engine from the tables at hand. */
import type { Engine, ResidencyPlan, RunStats } from '../native/addon-types.js';
import type { QueueConsumer } from '../predictor/hash-table-queue.js';
import type { ResidentFlag } from '../predictor/resident-flag.js';
import type { EvictionPolicy } from './eviction/index.js';
import { openTables, visitsOf } from './expected-visits.js';
import type { Foreknowledge } from './foreknowledge.js';
import { LinkLoad } from './link-load.js';
import type { QueuedBatch } from './messages.js';
import { PrefetchTrust } from './prefetch-trust.js';
import { type ExpectedVisit, type PlanInput, planOnDemand, planResidency } from './residency-planner.js';

export interface ForesightOptions {
  engine: Engine;
  policy: EvictionPolicy;
  queue: QueueConsumer<QueuedBatch>;
  resident: ResidentFlag;
  /** Of a simulated link, bytes a second; 0: none. */
  linkBandwidth: number;
}

/** What the tables of a batch in the queue say of its passes. */
export interface UpcomingBatch {
  encoder: readonly ExpectedVisit[];
  decoder: readonly ExpectedVisit[];
}

/** `upcoming`: the batches in the queue, the next one first. */
export function planPass(
  { own, behind }: Pick<Foreknowledge, 'own' | 'behind'>,
  upcoming: readonly UpcomingBatch[],
  rest: Pick<PlanInput, 'residency' | 'policy' | 'spareLink'>,
): ResidencyPlan {
  const batchVisits = own.length + behind.length;
  const next = upcoming[0] ? upcoming[0].encoder.length + upcoming[0].decoder.length : 0;
  return planResidency({
    visits: [...own, ...behind, ...upcoming.flatMap(({ encoder, decoder }) => [...encoder, ...decoder])],
    passVisits: own.length,
    batchVisits,
    prefetchVisits: batchVisits + next,
    ...rest,
  });
}

export class Foresight {
  readonly #options: ForesightOptions;
  readonly #decoderFirstLayer: number;
  readonly #trust = new PrefetchTrust();
  readonly #link: LinkLoad;

  constructor(options: ForesightOptions) {
    this.#options = options;
    const { moeLayers } = options.engine.shape;
    this.#decoderFirstLayer = moeLayers.filter((layer) => layer.startsWith('encoder.')).length;
    this.#link = new LinkLoad(options.engine.usage(), options.linkBandwidth);
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
    if (this.#options.resident.all) return;
    this.#trust.judge(stats);
    this.#link.judge(stats);
  }

  /** Null where every expert has a slot: nothing has to give way. */
  plan({ own, behind }: Pick<Foreknowledge, 'own' | 'behind'>): ResidencyPlan | null {
    const { engine, policy, queue, resident } = this.#options;
    if (resident.all) return null;
    const residency = engine.residency();
    if (!this.#trust.trusts) return planOnDemand(residency, policy);
    const upcoming = queue.waiting().map(({ tables }) => {
      const { encoder, decoder } = openTables(tables);
      return { encoder: visitsOf(encoder, 0), decoder: visitsOf(decoder, this.#decoderFirstLayer) };
    });
    return planPass({ own, behind }, upcoming, { residency, policy, spareLink: this.#link.spare });
  }
}
