/**
 * Prediction as the inference thread uses it: whether passes run with tables at present. Measures for the governor what
 * each pass took of the thread's time. That includes planning, step tables, and waits for tables and experts. It does
 * not include idle time, except where a batch was on its way and tables of earlier ones held it up.
 */
import { clockMs } from '../clock.js';
import type { PassForecast } from '../predictor/pass-forecast.js';
import type { EngineConfig } from '../protocol/engine-messages.js';
import type { GovernorFigures, GovernorState } from '../protocol/governor-figures.js';
import type { QueueConsumer } from '../protocol/hash-table-queue.js';
import type { SharedFlag } from '../protocol/shared-flag.js';
import type { PromptBatch, QueuedBatch } from '../protocol/thread-messages.js';
import { Governor } from './governor.js';

interface PredictionOptions {
  /** Whether there is a predictor. */
  predicts: boolean;
  /** Whether the governor may let it rest. */
  governed: boolean;
  queue: Pick<QueueConsumer<QueuedBatch>, 'length'>;
  /** Raised while every expert has a slot. */
  resident: SharedFlag;
  /** Raised while prediction rests. */
  rest: SharedFlag;
  /** Called when the state has changed. */
  onChange: (figures: GovernorFigures) => void;
  /** In milliseconds. */
  clock?: () => number;
}

/** Tables that route are always needed. True and wrong tables are built to be measured, also where they do not pay. */
export function isGoverned({
  governor,
  routing,
  hashFunction,
}: Pick<EngineConfig, 'governor' | 'routing' | 'hashFunction'>): boolean {
  return governor === 'on' && routing === 'exact' && hashFunction !== 'replay' && hashFunction !== 'shuffled';
}

export class Prediction {
  readonly #options: PredictionOptions;
  readonly #clock: () => number;
  readonly #governor: Governor;
  #predicts: boolean;
  #told: GovernorState;
  /** When the last pass ended. */
  #endedMs: number;
  /** Idle times since then. */
  #idle: { begin: number; end: number }[] = [];
  /** Batches in the queue that were prepared before the last change of arm. */
  #preparedBefore = 0;

  constructor(options: PredictionOptions) {
    this.#options = options;
    this.#predicts = options.predicts;
    this.#clock = options.clock ?? clockMs;
    this.#endedMs = this.#clock();
    this.#governor = new Governor(() => this.#tell());
    this.#told = this.#state;
  }

  /** Whether passes whose tables do not route them run without tables. */
  get rests(): boolean {
    return this.#measures && this.#governor.rests;
  }

  get figures(): GovernorFigures {
    const { gain, arms, switches, pauseSeconds } = this.#governor.figures;
    const on = this.#predicts && this.#options.governed;
    return { on, state: this.#state, gain, arms, switches, pauseSeconds: on ? pauseSeconds : 0 };
  }

  /** No predictor could be opened. */
  off(): void {
    this.#predicts = false;
    this.#changed();
  }

  /** Call it when the number of slots has changed. */
  slotsChanged(): void {
    this.#governor.restart();
    this.#changed();
  }

  /** The forecast as far as the pass may use it. */
  allowed(forecast: PassForecast): PassForecast {
    if (forecast.routingK > 0 || !this.rests) return forecast;
    return { own: [], behind: [], predicted: null, routingK: 0 };
  }

  idled(begin: number, end: number): void {
    this.#idle.push({ begin, end });
  }

  /** A batch leaves the queue. What the thread idled since it was made was a wait for tables of earlier batches. */
  took({ madeMs }: Pick<PromptBatch, 'madeMs'>): void {
    this.#preparedBefore -= 1;
    this.#idle = this.#idle.map(({ begin, end }) => ({ begin, end: Math.min(end, Math.max(begin, madeMs)) }));
  }

  /** Call it after each pass. `kind` tells passes apart whose times have different laws. */
  passEnded(kind: number, tokens: number, { routingK }: Pick<PassForecast, 'routingK'>): void {
    const ms = this.#restartClock();
    if (routingK > 0 || !this.#measures) return;
    const before = this.rests;
    this.#governor.passed({ kind, tokens, ms }, this.#preparedBefore <= 0);
    if (this.rests !== before) this.#changed();
  }

  /** A pass has failed, and its time says nothing. */
  passFailed(): void {
    this.#restartClock();
  }

  get #measures(): boolean {
    const { governed, resident } = this.#options;
    return this.#predicts && governed && !resident.raised;
  }

  get #state(): GovernorState {
    const { governed, resident } = this.#options;
    if (!this.#predicts) return 'off';
    if (resident.raised) return 'not_needed';
    return governed ? this.#governor.figures.state : 'active';
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

  #changed(): void {
    this.#preparedBefore = this.#options.queue.length;
    this.#options.rest.raised = this.rests;
    this.#tell();
  }

  #tell(): void {
    if (this.#state === this.#told) return;
    this.#told = this.#state;
    this.#options.onChange(this.figures);
  }
}
