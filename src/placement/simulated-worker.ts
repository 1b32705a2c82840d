/** A worker without a model: a queue in front of the simulated expert store. Time is counted, not spent. */
import {
  Replay,
  type ReplayBatch,
  type ReplayPass,
  type ReplayRule,
  simulated,
} from '../evaluation/replay.js';
import { StoreSimulation } from '../evaluation/store-simulation.js';
import { residentBits, type WorkerSummary } from './worker-summary.js';

export interface SimulatedRequest {
  batch: ReplayBatch;
  tokens: number;
  /** (experts of the model), what whoever chooses a worker believes; null: it has no table. */
  need: Float64Array | null;
}

export interface WorkerOptions {
  /** Of the model, all layers. */
  experts: number;
  slots: number;
  /** How it fills its slots; its look-ahead is how much of its queue it plans with. */
  rule: ReplayRule;
  /** Requests that it ends between two summaries. */
  publishEvery: number;
  /** Of an expert that is loaded, and of a token that is computed, one after the other. */
  loadMs: number;
  tokenMs: number;
}

interface Job extends SimulatedRequest {
  arrivedMs: number;
}

export interface Ended {
  /** From its arrival at the worker. */
  tookMs: number;
  loads: number;
}

export class SimulatedWorker {
  readonly #options: WorkerOptions;
  readonly #store: StoreSimulation;
  readonly #replay: Replay<ReplayPass>;
  readonly #queue: Job[] = [];
  #running: { job: Job; untilMs: number; loads: number } | null = null;
  #ended = 0;
  #summary: WorkerSummary;
  /** Requests given since the summary. */
  #given = 0;

  constructor(name: string, options: WorkerOptions) {
    this.#options = options;
    this.#store = new StoreSimulation(options.experts, options.slots);
    this.#replay = new Replay(simulated(this.#store), options.rule);
    const capacity = Number.MAX_SAFE_INTEGER;
    const resident = residentBits(new Uint8Array(options.experts));
    this.#summary = { worker: name, experts: options.experts, resident, load: 0, capacity, publishedMs: 0 };
  }

  get known(): { summary: WorkerSummary; given: number } {
    return { summary: this.#summary, given: this.#given };
  }

  /** When its running request ends; infinite without one. */
  get nextEndMs(): number {
    return this.#running?.untilMs ?? Number.POSITIVE_INFINITY;
  }

  give(request: SimulatedRequest, nowMs: number): void {
    this.#given += 1;
    this.#queue.push({ ...request, arrivedMs: nowMs });
    if (this.#running === null) this.#start(nowMs);
  }

  /** Ends the running request and begins the next one. */
  end(): Ended {
    const { job, untilMs, loads } = this.#running!;
    this.#running = null;
    this.#ended += 1;
    this.#start(untilMs);
    if (this.#ended % this.#options.publishEvery === 0) this.#publish(untilMs);
    return { tookMs: untilMs - job.arrivedMs, loads };
  }

  #start(nowMs: number): void {
    const job = this.#queue.shift();
    if (job === undefined) return;
    const { rule, loadMs, tokenMs } = this.#options;
    const before = this.#store.loads;
    const queue = this.#queue.slice(0, rule.lookahead ?? 0).map(({ batch }) => batch);
    this.#replay.run(job.batch, queue);
    const loads = this.#store.loads - before;
    const takesMs = loads * loadMs + job.tokens * tokenMs;
    this.#running = { job, untilMs: nowMs + takesMs, loads };
  }

  #publish(nowMs: number): void {
    const load = this.#queue.length + (this.#running === null ? 0 : 1);
    const resident = residentBits(this.#store.residency().state);
    this.#summary = { ...this.#summary, resident, load, publishedMs: nowMs };
    this.#given = 0;
  }
}
