/**
 * Prediction as the inference thread uses it: whether passes run with tables at present, and whether layers look ahead.
 * Measures for the governors what each pass took of the thread's time. That includes planning, step tables, and waits
 * for tables and experts. It does not include idle time, except where a batch was on its way and tables of earlier ones
 * held it up. Only one governor measures at a time, because another's changes of arm would disturb its windows. It
 * keeps its turn until its probe ends, or until its source has to rest between two pairs of windows. At the start, and
 * after a change of the budget, that is the tables' governor.
 */

import { clockMs } from '../clock.js';
import type { EngineConfig } from '../config/engine-config.js';
import type { PassForecast } from '../predictor/pass-forecast.js';
import {
  type GovernorFigures,
  type GovernorState,
  type Governors,
  SOURCES,
  type Source,
} from '../protocol/governor-figures.js';
import type { QueueConsumer } from '../protocol/hash-table-queue.js';
import type { PromptBatch, QueuedBatch } from '../protocol/inference-messages.js';
import type { SharedFlag } from '../protocol/shared-flag.js';
import { Governor } from './governor.js';
import type { PassTime } from './probe-window.js';

interface PredictionOptions {
  /** Whether there is a predictor. */
  predicts: boolean;
  /** Later MoE layers whose routers name experts; 0 is off. */
  lookAheadLayers: number;
  /** Whether governors may let tables and looking ahead rest. */
  governed: { tables: boolean; lookAhead: boolean };
  queue: Pick<QueueConsumer<QueuedBatch>, 'length'>;
  /** Raised while every expert has a slot. */
  resident: SharedFlag;
  /** Raised while tables rest. */
  rest: SharedFlag;
  /** Called when the state of a source has changed. */
  onChange: (source: Source, figures: GovernorFigures) => void;
  /** In milliseconds. */
  clock?: () => number;
}

/** Tables that route are always needed. */
export function isGoverned({ governor, routing }: Pick<EngineConfig, 'governor' | 'routing'>): boolean {
  return governor === 'on' && routing === 'exact';
}

export class Prediction {
  readonly #options: PredictionOptions;
  readonly #clock: () => number;
  readonly #governors: Record<Source, Governor>;
  /** The source whose governor may measure. */
  #turn: Source = 'tables';
  #predicts: boolean;
  readonly #told: Record<Source, GovernorState>;
  /** When the last pass ended. */
  #endedMs: number;
  /** Idle times since then. */
  #idle: { begin: number; end: number }[] = [];
  /** Id of the next batch that leaves the queue. */
  #nextBatch = 0;
  /** The first batch that was not prepared before the last change of the tables' arm. */
  #preparedFrom = 0;

  constructor(options: PredictionOptions) {
    this.#options = options;
    this.#predicts = options.predicts;
    this.#clock = options.clock ?? clockMs;
    this.#endedMs = this.#clock();
    this.#governors = {
      tables: new Governor(() => this.#tell('tables')),
      look_ahead: new Governor(() => this.#tell('look_ahead')),
    };
    this.#told = { tables: this.#state('tables'), look_ahead: this.#state('look_ahead') };
  }

  /** Whether passes whose tables do not route them run without tables. */
  get rests(): boolean {
    return this.#rests('tables');
  }

  /** Layers that the next pass looks ahead. */
  get lookAheadLayers(): number {
    return this.#rests('look_ahead') ? 0 : this.#options.lookAheadLayers;
  }

  get figures(): Governors {
    return { tables: this.#figures('tables'), look_ahead: this.#figures('look_ahead') };
  }

  /** No predictor could be opened. */
  off(): void {
    this.#predicts = false;
    this.#tablesChanged();
  }

  /** Call it when the number of slots has changed. */
  slotsChanged(): void {
    for (const source of SOURCES) this.#governors[source].restart();
    this.#turn = 'tables';
    this.#tablesChanged();
    this.#tell('look_ahead');
  }

  /** The forecast as far as the pass may use it. */
  allowed(forecast: PassForecast): PassForecast {
    if (forecast.routingK > 0 || !this.rests) return forecast;
    return { own: [], behind: [], predicted: null, routingK: 0, oldestBatch: Number.POSITIVE_INFINITY };
  }

  idled(begin: number, end: number): void {
    this.#idle.push({ begin, end });
  }

  /** A batch leaves the queue. What the thread idled since it was made was a wait for tables of earlier batches. */
  took({ id, madeMs }: Pick<PromptBatch, 'id' | 'madeMs'>): void {
    this.#nextBatch = id + 1;
    this.#idle = this.#idle.map(({ begin, end }) => ({ begin, end: Math.min(end, Math.max(begin, madeMs)) }));
  }

  /**
   * Call it after each pass, with what `allowed` returned. `kind` tells passes apart whose times have different laws.
   */
  passEnded(
    kind: number,
    tokens: number,
    { routingK, oldestBatch }: Pick<PassForecast, 'routingK' | 'oldestBatch'>,
  ): void {
    const ms = this.#restartClock();
    if (routingK > 0) return;
    const before = this.rests;
    // Inputs that were taken while tables rested have none until they have run.
    const prepared = Math.min(this.#nextBatch, oldestBatch) >= this.#preparedFrom;
    this.#tellGovernors({ kind, tokens, ms }, prepared);
    if (this.rests !== before) this.#tablesChanged();
  }

  /** A pass has failed, and its time says nothing. */
  passFailed(): void {
    this.#restartClock();
  }

  #tellGovernors(pass: PassTime, prepared: boolean): void {
    const other = this.#turn === 'tables' ? 'look_ahead' : 'tables';
    if (this.#isMeasured(this.#turn)) {
      this.#passed(this.#turn, pass, prepared);
      this.#governors[other].elapsed(pass.ms);
    } else {
      for (const source of SOURCES) this.#passed(source, pass, prepared);
    }
    if (!this.#isMeasured(this.#turn) && this.#isMeasured(other)) this.#turn = other;
  }

  #passed(source: Source, pass: PassTime, prepared: boolean): void {
    if (this.#decides(source)) this.#governors[source].passed(pass, prepared);
  }

  /** While it waits for its turn to be measured, a source runs only if it has paid before. */
  #rests(source: Source): boolean {
    if (!this.#decides(source)) return false;
    const waits = this.#turn !== source && this.#isMeasured(source) && this.#isMeasured(this.#turn);
    return waits ? !this.#governors[source].pays : this.#governors[source].rests;
  }

  #isMeasured(source: Source): boolean {
    return this.#decides(source) && this.#governors[source].measures;
  }

  #decides(source: Source): boolean {
    return this.#has(source) && this.#governs(source) && !this.#options.resident.raised;
  }

  #has(source: Source): boolean {
    return source === 'tables' ? this.#predicts : this.#options.lookAheadLayers > 0;
  }

  #governs(source: Source): boolean {
    const { governed } = this.#options;
    return source === 'tables' ? governed.tables : governed.lookAhead;
  }

  #figures(source: Source): GovernorFigures {
    const { gain, arms, switches, pauseSeconds } = this.#governors[source].figures;
    const on = this.#has(source) && this.#governs(source);
    const state = this.#state(source);
    return { on, state, gain, arms, switches, pauseSeconds: on ? pauseSeconds : 0 };
  }

  #state(source: Source): GovernorState {
    if (!this.#has(source)) return 'off';
    if (this.#options.resident.raised) return 'not_needed';
    return this.#governs(source) ? this.#governors[source].figures.state : 'active';
  }

  /** Returns the thread's time since the last pass, without idle time. */
  #restartClock(): number {
    const now = this.#clock();
    const idle = this.#idle.reduce((sum, { begin, end }) => sum + end - begin, 0);
    const ms = now - this.#endedMs - idle;
    this.#endedMs = now;
    this.#idle = [];
    return ms;
  }

  #tablesChanged(): void {
    this.#preparedFrom = this.#nextBatch + this.#options.queue.length;
    this.#options.rest.raised = this.rests;
    this.#tell('tables');
  }

  #tell(source: Source): void {
    const state = this.#state(source);
    if (state === this.#told[source]) return;
    this.#told[source] = state;
    this.#options.onChange(source, this.#figures(source));
  }
}
