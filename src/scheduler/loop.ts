/** The loop of the inference thread: takes batches and runs prompts, scores or generates, pass by pass. */

import { clockMs } from '../clock.js';
import { SidaError } from '../errors.js';
import { type OpenTables, openTables } from '../forecast/pass-forecast.js';
import type { StepForecaster } from '../forecast/step-forecaster.js';
import { TableWait } from '../forecast/table-wait.js';
import type { Engine } from '../native/addon-types.js';
import { hasEncoder } from '../native/model-shape.js';
import { profiled } from '../profile/thread-events.js';
import type { QueueConsumer } from '../protocol/batch-queue.js';
import type { BuilderStats } from '../protocol/builder-stats.js';
import { type Counters, noCounts } from '../protocol/counters.js';
import type { CachedPages, ControlReply, ModelRequest } from '../protocol/engine-messages.js';
import type { ThreadLife } from '../protocol/grammar-messages.js';
import type { FromInference, ItemResults, QueuedBatch, ToInference } from '../protocol/inference-messages.js';
import { PassMeter, stackCosts } from '../quote/pass-rates.js';
import { Matchers } from '../structured-output/matchers.js';
import { Admission } from './admission.js';
import { JobCosts, PredictorHits } from './costs.js';
import { Generations } from './generations.js';
import { DecoderOnly } from './kinds/decoder-only.js';
import { EncoderDecoder } from './kinds/encoder-decoder.js';
import type { ModelKind } from './kinds/model-kind.js';
import { type KvRoom, RECURRENT } from './page-need.js';
import { PageLeases } from './pages.js';
import { NativePasses, type Planner } from './passes.js';
import { PrefixCache } from './prefix-cache.js';
import type { Outcomes, Request } from './request.js';
import { RunningRequests } from './running-requests.js';

/** Interval of the counter messages while there is work, and while there is none. */
const BUSY_COUNTERS_MS = 100;
const IDLE_COUNTERS_MS = 1000;

interface InferenceLoopOptions {
  engine: Engine;
  pageTokens: number;
  maxBatchTokens: number;
  /** Whether KV pages are kept for later inputs, where the model allows it. */
  prefixCache: boolean;
  /** MoE layers whose routers name experts ahead; 0 is off. */
  routeAhead: number;
  builderStats: BuilderStats;
  planner: Planner;
  /** Answers a control request between two steps. */
  control: (request: ModelRequest, cached: CachedPages) => ControlReply;
  /** Null if generations are not predicted. */
  stepTables: StepForecaster | null;
  queue: QueueConsumer<QueuedBatch>;
  /** Returns the next control message, or undefined if none has arrived. */
  nextControl: () => ToInference | undefined;
  emit: (message: FromInference) => void;
}

export class InferenceLoop {
  readonly #options: InferenceLoopOptions;
  readonly #counters: Counters = noCounts();
  readonly #meter: PassMeter;
  readonly #costs: JobCosts;
  readonly #pages: PageLeases;
  readonly #hits: PredictorHits;
  readonly #tableWait: TableWait;
  readonly #generations: Generations;
  readonly #matchers: Matchers;
  readonly #running: RunningRequests;
  readonly #kind: ModelKind;
  readonly #admission: Admission;
  /**
   * Jobs that failed in the current turn. They are released at its end, when no step uses their sequences any more.
   */
  readonly #failed = new Map<number, SidaError>();
  #closed = false;
  #countersSentMs = 0;
  /** For the tables of the last batch. */
  #tableWaitSeconds = 0;

  constructor(options: InferenceLoopOptions) {
    const { engine, maxBatchTokens, queue, planner } = options;
    this.#options = options;
    const { shape, plan } = engine;
    this.#meter = new PassMeter(stackCosts(shape, plan));
    this.#costs = new JobCosts(shape, plan.blockBytes);
    this.#hits = new PredictorHits(shape.topK);
    this.#tableWait = new TableWait(queue.arrivals, this.#counters);
    const outcomes: Outcomes = {
      tokens: (tokens) => {
        this.#counters.generatedTokens += tokens.length;
        options.emit({ type: 'tokens', tokens });
      },
      done: (item, job, results) => this.#done(item, job, results),
      failed: (job, error) => this.#failed.set(job, error),
    };
    const passes = new NativePasses({
      engine,
      planner,
      routeAhead: options.routeAhead,
      hits: this.#hits,
      maxBatchTokens,
      costs: this.#costs,
      counters: this.#counters,
      meter: this.#meter,
      onJobError: outcomes.failed,
    });
    const newId = () => passes.newId();
    this.#pages = this.#openPages(newId);
    const running = new RunningRequests({ engine, pages: this.#pages, outcomes, newId });
    const { stepTables } = options;
    const generations = new Generations({ engine, planner, stepTables, requests: running, outcomes });
    const onStuck = (life: ThreadLife) => options.emit({ type: 'grammar-stuck', ...life });
    this.#matchers = new Matchers(shape.vocabSize, onStuck);
    this.#running = running;
    this.#generations = generations;
    const encodes = hasEncoder(shape);
    this.#kind = new (encodes ? EncoderDecoder : DecoderOnly)({
      engine,
      passes,
      tableWait: this.#tableWait,
      generations,
      matchers: this.#matchers,
      running,
      outcomes,
      onSuspend: (request) => this.#admission.suspend(request),
    });
    this.#admission = new Admission({
      queue,
      running,
      kind: this.#kind,
      encodes,
      onBatch: (queued) => this.#open(queued),
      onStart: (requests) => this.#start(requests),
    });
  }

  #openPages(newId: () => number): PageLeases {
    const { engine, pageTokens, maxBatchTokens, prefixCache } = this.#options;
    const { kvPages, kvWindows } = engine.usage();
    const encodes = hasEncoder(engine.shape);
    const room: KvRoom = { encodes, kvPages, kvPageTokens: pageTokens, kvWindows, maxBatchTokens };
    // Layers with a window give up the pages behind it, which a shorter beginning of the same tokens would need.
    const keeps = prefixCache && !encodes && kvWindows.every(({ window }) => window === RECURRENT);
    const recurrent = kvWindows.length > 0;
    return new PageLeases(room, keeps ? new PrefixCache({ engine, pageTokens, recurrent, newId }) : null);
  }

  /** Times that a request gave up its pages to others. */
  get preemptions(): number {
    return this.#running.counts.preemptions;
  }

  get #cachedPages(): number {
    return this.#pages.cache?.unused ?? 0;
  }

  /** Runs until a `close` message arrives. Blocks the thread. */
  run(): void {
    const { queue } = this.#options;
    while (!this.#closed) {
      const seen = queue.arrivals.signals;
      if (!this.turn()) profiled('idle', () => this.#idle(seen));
      else if (clockMs() - this.#countersSentMs >= BUSY_COUNTERS_MS) this.#sendCounters();
    }
    this.#options.engine.close();
    this.#options.emit({ type: 'closed' });
  }

  /** Runs one round: control messages, new requests, a step of all running ones. Returns false if it was idle. */
  turn(): boolean {
    this.#readControl();
    if (this.#closed) return true;
    const starts = this.#admission.startRequests();
    const stepped = this.#running.count > 0;
    if (stepped) profiled('step', () => this.#kind.step(), { tokens: this.#generations.count });
    for (const [job, error] of this.#failed) this.#failJob(job, error);
    this.#failed.clear();
    return starts > 0 || stepped;
  }

  #idle(seen: number): void {
    const begin = clockMs();
    this.#meter.rested();
    this.#counters.idleWaits += 1;
    let every = BUSY_COUNTERS_MS;
    this.#options.queue.idle = true;
    while (!this.#options.queue.arrivals.wait(seen, Math.max(0, this.#countersSentMs + every - clockMs()))) {
      this.#sendCounters();
      every = IDLE_COUNTERS_MS;
    }
    this.#options.queue.idle = false;
    this.#counters.idleSeconds += (clockMs() - begin) / 1000;
  }

  #sendCounters(): void {
    this.#countersSentMs = clockMs();
    const { queue, engine, emit } = this.#options;
    Object.assign(this.#counters, this.#running.counts);
    const counters = {
      ...this.#counters,
      tablesQueued: queue.length,
      inputsHeld: this.#running.count,
      activeSequences: this.#generations.count + this.#running.count - this.#generations.requests,
      kvPagesCached: this.#cachedPages,
      usage: engine.usage(),
      routingsPredicted: this.#hits.total.predicted,
      routingHitsNarrow: this.#hits.total.narrow,
      routingHitsWide: this.#hits.total.wide,
      tableWeight: engine.tableWeight,
      tables: this.#options.builderStats.figures(),
      rssBytes: process.memoryUsage.rss(),
    };
    emit({ type: 'counters', counters, rates: this.#meter.rates(counters.usage.slots) });
  }

  #readControl(): void {
    for (;;) {
      const message = this.#options.nextControl();
      if (message === undefined) return;
      if (message.type === 'close') this.#closed = true;
      else if (message.type === 'cancel') this.#releaseJob(message.job, message.lastBatch);
      else if (message.type === 'stop') this.#stop(message.item, message.choice);
      else if (message.type === 'grammar-thread') this.#matchers.connect(message, message.port);
      else this.#answer(message);
    }
  }

  #stop(item: number, choice: number): void {
    this.#generations.stop(item, choice);
    this.#kind.stop(item);
    const stopped = this.#admission.stop(item);
    if (stopped !== undefined) this.#running.done(stopped);
  }

  #answer({ id, request }: Extract<ToInference, { type: 'control' }>): void {
    const { emit, control, planner } = this.#options;
    try {
      const reply = control(request, { pages: this.#cachedPages, states: this.#pages.cache?.states ?? 0 });
      planner.slotsChanged();
      emit({ type: 'control-reply', id, reply });
    } catch (cause) {
      const error = SidaError.from(cause);
      if (error.code === 'device_failed') throw error;
      emit({ type: 'control-error', id, error: error.toBody() });
    }
  }

  /** Readies the tables of a batch whose first request starts. */
  #open({ batch, tables: queued }: QueuedBatch): OpenTables {
    // Steps of generations have taken theirs; labels of one token are left.
    const { planner, builderStats } = this.#options;
    const [prompts, labels] = [planner.takeSaved('prompts'), planner.takeSaved('steps')];
    const saved = prompts === undefined ? labels : prompts + (labels ?? 0);
    if (saved !== undefined) builderStats.batchSaved(saved - this.#tableWaitSeconds);
    const waitedBefore = this.#counters.tableWaitSeconds;
    this.#counters.batches += 1;
    const tables = openTables(queued);
    if (batch.routingK > 0) this.#tableWait.finish(tables);
    else this.#tableWait.settle(tables);
    this.#tableWaitSeconds = this.#counters.tableWaitSeconds - waitedBefore;
    return tables;
  }

  #start(requests: readonly Request[]): void {
    const now = clockMs();
    let tokens = 0;
    for (const request of requests) {
      if (request.suspended !== null) continue;
      tokens += request.tokens.length;
      this.#costs.begin(request, now);
    }
    this.#counters.promptTokens += tokens;
    profiled('batch', () => this.#kind.start(requests), { batch: requests[0]!.batch.id, tokens });
  }

  #done(item: number, job: number, results: ItemResults): void {
    this.#matchers.endItem(item);
    if (this.#failed.has(job)) return;
    const end = this.#costs.itemDone(job, clockMs());
    this.#options.emit({ type: 'done', item, job, ...results, ...(end && { end }) });
  }

  #failJob(job: number, error: SidaError): void {
    const body = { ...error.toBody(), ...(this.#costs.ran(job) && { ran: true as const }) };
    // The main thread replies with a cancel, which carries the last batch whose items must be skipped.
    this.#releaseJob(job, Number.POSITIVE_INFINITY);
    this.#options.emit({ type: 'job-error', job, error: body });
  }

  /** Ends a job, whose last items are in `lastBatch`. */
  #releaseJob(job: number, lastBatch: number): void {
    this.#costs.drop(job);
    this.#admission.drop(job, lastBatch);
    this.#matchers.endJob(job);
    this.#generations.dropJob(job);
    this.#kind.dropJob(job);
    this.#running.dropJob(job);
  }
}
