/** Gathers what is known before each pass of one engine, whose native planner plans by it. */
import { clockMs } from '../clock.js';
import type { PassForecast } from '../forecast/pass-forecast.js';
import { needsOf, openTables } from '../forecast/pass-forecast.js';
import type { Engine, PassNeeds, RunResult, RunStats, TableNeeds } from '../native/addon-types.js';
import { firstMoeLayer } from '../native/model-shape.js';
import type { QueueConsumer } from '../protocol/batch-queue.js';
import type { BuilderStats } from '../protocol/builder-stats.js';
import { TABLE_PENDING } from '../protocol/hash-table.js';
import type { QueuedBatch } from '../protocol/inference-messages.js';
import type { SharedFlag } from '../protocol/shared-flag.js';
import type { PassKind, Planner } from '../scheduler/passes.js';
import { LinkLoad } from './link-load.js';

/** Of so many passes, a run without forecasts is the control of what they save. The first comes early. */
const PERIOD = 1024;
const CONTROLS = 32;
const FIRST_CONTROL = 64;
/** Passes without forecasts after which memory holds no more of what forecasts brought. */
const SETTLED = 16;

interface PassPlannerOptions {
  engine: Engine;
  queue: QueueConsumer<QueuedBatch>;
  /** Raised while every expert has a slot. No expert moves then, and tables are of no use. */
  resident: SharedFlag;
  /** Says whether prediction is switched off. */
  builderStats: BuilderStats;
  /** Bandwidth of a simulated link in bytes per second; 0 means none. */
  linkBandwidth: number;
}

export class PassPlanner implements Planner {
  readonly #options: PassPlannerOptions;
  readonly #link: LinkLoad;
  /** Needs of the batches in the queue whose tables are finished. */
  readonly #needs = new WeakMap<QueuedBatch, readonly TableNeeds[]>();
  #savings = { steps: new ForecastSaving(), prompts: new ForecastSaving() };
  readonly #saved: Record<PassKind, number | undefined> = { steps: undefined, prompts: undefined };
  /** Passes with a forecast so far. */
  readonly #forecasts = { steps: 0, prompts: 0 };
  /** Whether the running pass uses its forecast. */
  #uses = false;
  #slots = -1;

  constructor(options: PassPlannerOptions) {
    this.#options = options;
    this.#link = new LinkLoad(options.engine.usage(), options.linkBandwidth);
    this.slotsChanged();
  }

  slotsChanged(): void {
    const { engine, resident } = this.#options;
    const { slots } = engine.usage();
    if (slots === this.#slots) return;
    this.#slots = slots;
    resident.raised = slots >= engine.plan.experts;
    this.#savings = { steps: new ForecastSaving(), prompts: new ForecastSaving() };
  }

  get needsForecast(): boolean {
    const { resident, builderStats } = this.#options;
    return !resident.raised && clockMs() >= builderStats.offUntilMs;
  }

  /** Learns from a finished pass how busy the link was, and what the forecast saved. */
  judge({ stats, layers }: Pick<RunResult, 'stats' | 'layers'>, kind: PassKind, tokens: number): void {
    if (this.#options.resident.raised) return;
    this.#link.judge(stats, layers.length);
    const saved = this.#savings[kind].judge(stats, tokens, this.#uses);
    if (saved !== undefined) this.#saved[kind] = (this.#saved[kind] ?? 0) + saved;
  }

  takeSaved(kind: PassKind): number | undefined {
    const seconds = this.#saved[kind];
    this.#saved[kind] = undefined;
    return seconds;
  }

  needs(known: Pick<PassForecast, 'own' | 'behind' | 'routingK'>, kind: PassKind): PassNeeds | null {
    const { queue, resident } = this.#options;
    if (resident.raised) return null;
    const { own, behind, routingK } = known;
    this.#uses = own.length > 0 && (routingK > 0 || !isControl(++this.#forecasts[kind]));
    const { busy, stay } = this.#link.state(this.#slots);
    const upcoming = queue.waiting().map((queued) => this.#needsOf(queued));
    return { own, behind, upcoming, control: !this.#uses, linkBusy: busy, slotStay: stay };
  }

  #needsOf(queued: QueuedBatch): readonly TableNeeds[] {
    const known = this.#needs.get(queued);
    if (known !== undefined) return known;
    const { shape } = this.#options.engine;
    const tables = openTables(queued.tables);
    // Before the tables are read, because the hash-building thread may finish one meanwhile.
    const finished = tables.every((table) => table?.state !== TABLE_PENDING);
    const needs = tables.flatMap((table, stack) => needsOf(table, firstMoeLayer(shape, stack)));
    if (finished) this.#needs.set(queued, needs);
    return needs;
  }
}

function isControl(count: number): boolean {
  return count >= FIRST_CONTROL && (count - FIRST_CONTROL) % PERIOD < CONTROLS;
}

/** What is left of the measured passes without a forecast after one more: about the last 50 count. */
const KEPT = 0.98;

type PassTimes = Pick<RunStats, 'passNs' | 'stallNs' | 'peerWaitNs' | 'needed'>;

interface Computing {
  passes: number;
  tokens: number;
  ns: number;
}

/** Passes of a size without a forecast that say little of their computing. */
const FEW = 4;

class ForecastSaving {
  // Of passes without a forecast.
  #stallNs = 0;
  #needed = 0;
  /** Their computing by the power of 2 of their tokens, because a part of it does not grow with tokens. */
  readonly #computing: Computing[] = [];
  /** Passes without a forecast in a row. */
  #without = 0;

  /**
   * Returns the seconds that the forecast saved: without one, as many needed experts take longer waits, and as many
   * tokens other times to compute, because loads take cores. Undefined for a pass without a forecast, and before such
   * passes were measured.
   */
  judge(
    { passNs, stallNs: waitedNs, peerWaitNs, needed }: PassTimes,
    tokens: number,
    forecast: boolean,
  ): number | undefined {
    const [stallNs, computeNs] = [waitedNs - peerWaitNs, passNs - waitedNs];
    const size = 31 - Math.clz32(tokens);
    this.#computing[size] ??= { passes: 0, tokens: 0, ns: 0 };
    const computing = this.#computing[size];
    this.#without = forecast ? 0 : this.#without + 1;
    if (this.#without > SETTLED) {
      this.#stallNs = this.#stallNs * KEPT + stallNs;
      this.#needed = this.#needed * KEPT + needed;
      computing.passes = computing.passes * KEPT + 1;
      computing.tokens = computing.tokens * KEPT + tokens;
      computing.ns = computing.ns * KEPT + computeNs;
    }
    if (!forecast || this.#needed === 0) return undefined;
    const waits = (this.#stallNs / this.#needed) * needed - stallNs;
    const computes = computing.passes < FEW ? 0 : (computing.ns / computing.tokens) * tokens - computeNs;
    return (waits + computes) / 1e9;
  }
}
