/** Plans the passes of one engine from the known tables. */
import { firstMoeLayer } from '../model/model-shape.js';
import type { Engine, Residency, ResidencyPlan, RunResult } from '../native/addon-types.js';
import { type ExpectedVisit, openTables, visitsOf } from '../predictor/expected-visits.js';
import type { PassForecast } from '../predictor/pass-forecast.js';
import { TABLE_PENDING } from '../protocol/hash-table.js';
import type { QueueConsumer } from '../protocol/hash-table-queue.js';
import type { QueuedBatch } from '../protocol/inference-messages.js';
import type { SharedFlag } from '../protocol/shared-flag.js';
import type { EvictionPolicy } from './eviction/policy.js';
import { ForecastSaving } from './forecast-saving.js';
import { LinkLoad } from './link-load.js';
import { NeedCalibration } from './need-calibration.js';
import { PlanBuffers } from './plan-buffers.js';
import type { PlannedVisit } from './planned-visit.js';
import { type PlanInput, planResidency } from './residency-planner.js';

/** One pass in so many runs without its forecast, as the control of what forecasts save. */
const CONTROL = 32;

/** Whether each sequence of a pass is fed one token. */
export type PassKind = 'steps' | 'prompts';

interface PassPlannerOptions {
  engine: Engine;
  policy: EvictionPolicy;
  queue: QueueConsumer<QueuedBatch>;
  /** Raised while every expert has a slot. No expert moves then, and tables are of no use. */
  resident: SharedFlag;
  /** Bandwidth of a simulated link in bytes per second; 0 means none. */
  linkBandwidth: number;
}

const NO_FORECAST: Pick<PassForecast, 'own' | 'behind'> = { own: [], behind: [] };

/** The visits of a pass and of the later passes of its batch. */
interface PassVisits {
  own: readonly PlannedVisit[];
  behind: readonly PlannedVisit[];
}

export function correctedPass(
  { own, behind }: Pick<PassForecast, 'own' | 'behind'>,
  calibration: NeedCalibration,
): PassVisits {
  return { own: correctedVisits(own, calibration), behind: correctedVisits(behind, calibration) };
}

export function correctedVisits(
  visits: readonly ExpectedVisit[],
  calibration: NeedCalibration,
): readonly PlannedVisit[] {
  return visits.map((visit) => calibration.corrected(visit));
}

/** `upcoming` holds the visits of the queued batches, the next batch first. */
export function planPass(
  { own, behind }: PassVisits,
  upcoming: readonly (readonly PlannedVisit[])[],
  rest: Pick<PlanInput, 'residency' | 'policy' | 'link'>,
  buffers?: PlanBuffers,
): ResidencyPlan {
  const batchVisits = own.length + behind.length;
  const next = upcoming[0]?.length ?? 0;
  const visits = [...own, ...behind, ...upcoming.flat()];
  const prefetchVisits = batchVisits + next;
  return planResidency({ visits, passVisits: own.length, batchVisits, prefetchVisits, ...rest }, buffers);
}

export class PassPlanner {
  readonly #options: PassPlannerOptions;
  readonly #link: LinkLoad;
  readonly #calibration = new NeedCalibration();
  /** Visits of the batches in the queue whose tables are finished. */
  readonly #visits = new WeakMap<QueuedBatch, readonly PlannedVisit[]>();
  readonly #buffers: PlanBuffers;
  readonly #savings = { steps: new ForecastSaving(), prompts: new ForecastSaving() };
  readonly #saved: Record<PassKind, number | undefined> = { steps: undefined, prompts: undefined };
  #residency: Residency | undefined;
  /** Passes with a forecast so far. */
  readonly #forecasts = { steps: 0, prompts: 0 };
  /** Whether the running pass uses its forecast. */
  #uses = false;

  constructor(options: PassPlannerOptions) {
    this.#options = options;
    this.#link = new LinkLoad(options.engine.usage(), options.linkBandwidth);
    this.#buffers = new PlanBuffers(options.engine.plan.experts);
    this.slotsChanged();
  }

  /** Call it after a change of budget. */
  slotsChanged(): void {
    const { engine, resident } = this.#options;
    resident.raised = engine.usage().slots >= engine.plan.experts;
  }

  /** Whether forecasts are useful, which they are if experts may have to be evicted. */
  get needsForecast(): boolean {
    return !this.#options.resident.raised;
  }

  /** See `NeedCalibration.tableWeight`. */
  get tableWeight(): number {
    return this.#calibration.tableWeight;
  }

  /** Learns from a finished pass how busy the link was, how good the forecast was, and what it saved. */
  judge(
    { stats, found, layers }: Pick<RunResult, 'stats' | 'found' | 'layers'>,
    own: readonly ExpectedVisit[],
    kind: PassKind,
  ): void {
    if (this.#options.resident.raised) return;
    this.#link.judge(stats, layers.length);
    const saved = this.#savings[kind].judge(stats, this.#uses);
    if (saved !== undefined) this.#saved[kind] = (this.#saved[kind] ?? 0) + saved;
    let first = 0;
    for (const visit of own) {
      const end = first + visit.need.length;
      this.#calibration.learn(visit, found.subarray(first, end));
      first = end;
    }
  }

  /** Seconds that forecasts saved such passes since the last call. Undefined if none used a forecast. */
  takeSaved(kind: PassKind): number | undefined {
    const seconds = this.#saved[kind];
    this.#saved[kind] = undefined;
    return seconds;
  }

  /** Returns null if every expert has a slot, since nothing is ever evicted then. */
  plan(known: Pick<PassForecast, 'own' | 'behind' | 'routingK'>, kind: PassKind): ResidencyPlan | null {
    const { engine, policy, queue, resident } = this.#options;
    if (resident.raised) return null;
    const residency = engine.residency(this.#residency);
    this.#residency = residency;
    const upcoming = queue.waiting().map((queued) => this.#visitsOf(queued));
    this.#uses = known.own.length > 0 && (known.routingK > 0 || !isControl(++this.#forecasts[kind]));
    const pass = correctedPass(this.#uses ? known : NO_FORECAST, this.#calibration);
    const link = this.#link.state(residency.slots);
    return planPass(pass, upcoming, { residency, policy, link }, this.#buffers);
  }

  #visitsOf(queued: QueuedBatch): readonly PlannedVisit[] {
    const known = this.#visits.get(queued);
    if (known !== undefined) return known;
    const { shape } = this.#options.engine;
    const tables = openTables(queued.tables);
    // Before the tables are read, because the hash-building thread may finish one meanwhile.
    const finished = tables.every((table) => table?.state !== TABLE_PENDING);
    const forecast = tables.flatMap((table, stack) => visitsOf(table, firstMoeLayer(shape, stack)));
    const visits = correctedVisits(forecast, this.#calibration);
    if (finished) this.#visits.set(queued, visits);
    return visits;
  }
}

/** Scattered: every 32nd pass would always be the same one of batches that run several. */
function isControl(count: number): boolean {
  return Math.imul(count, 0x9e3779b1) >>> 0 < 2 ** 32 / CONTROL;
}
