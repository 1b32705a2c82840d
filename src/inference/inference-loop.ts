/** The loop of the inference thread: takes batches and runs prompts, scores or generates, pass by pass. */

import { Generations } from '../batching/generations.js';
import { HeldBatch } from '../batching/held-batch.js';
import { HeldInputs } from '../batching/held-inputs.js';
import { KvPages } from '../batching/kv-pages.js';
import type { Outcomes } from '../batching/outcomes.js';
import { clockMs } from '../clock.js';
import { SidaError } from '../errors.js';
import { openKind } from '../model/kinds/index.js';
import type { ModelKind } from '../model/kinds/model-kind.js';
import { isEncoderDecoder } from '../model/model-shape.js';
import type { Engine } from '../native/addon-types.js';
import { openTables } from '../predictor/expected-visits.js';
import type { StepTables } from '../predictor/step-tables.js';
import { profiled } from '../profile/thread-events.js';
import type { BuilderStats } from '../protocol/builder-stats.js';
import type { QueueConsumer } from '../protocol/hash-table-queue.js';
import type { ResidentFlag } from '../protocol/resident-flag.js';
import type { FromInference, ItemResults, QueuedBatch, ToInference } from '../protocol/thread-messages.js';
import { Belady } from './belady.js';
import { InferenceCounters } from './counters.js';
import { answerControl } from './engine-control.js';
import type { EvictionPolicy } from './eviction/policy.js';
import { JobCosts } from './job-costs.js';
import { NativePasses } from './native-passes.js';
import { PassPlanner } from './pass-planner.js';
import { RoutingQuality } from './routing-quality.js';
import { TableWait } from './table-wait.js';

interface InferenceLoopOptions {
  engine: Engine;
  pageTokens: number;
  maxBatchTokens: number;
  policy: EvictionPolicy;
  lookahead: number;
  /** Bandwidth of a simulated link in bytes per second; 0 means none. */
  linkBandwidth: number;
  builderStats: BuilderStats;
  resident: ResidentFlag;
  /** Null if generations are not predicted. */
  stepTables: StepTables | null;
  queue: QueueConsumer<QueuedBatch>;
  /** Returns the next control message, or undefined if none has arrived. */
  nextControl: () => ToInference | undefined;
  emit: (message: FromInference) => void;
}

/** Interval of the counter messages while there is work, and while there is none. */
const BUSY_COUNTERS_MS = 100;
const IDLE_COUNTERS_MS = 1000;

export class InferenceLoop {
  readonly #options: InferenceLoopOptions;
  readonly #counters = new InferenceCounters();
  readonly #costs: JobCosts;
  readonly #pages: KvPages;
  readonly #planner: PassPlanner;
  readonly #belady: Belady;
  readonly #quality: RoutingQuality;
  readonly #tableWait: TableWait;
  readonly #generations: Generations;
  readonly #inputs: HeldInputs;
  readonly #kind: ModelKind;
  /** Jobs whose items are skipped, and the last batch that may hold any of them. */
  readonly #dropped = new Map<number, number>();
  /**
   * Jobs that failed in the current turn. They are released at its end, when no step uses their sequences any more.
   */
  readonly #failed = new Map<number, SidaError>();
  #held: HeldBatch | undefined;
  #lastFinishedBatch = -1;
  #closed = false;
  #countersSentMs = 0;

  constructor(options: InferenceLoopOptions) {
    const { engine, policy, maxBatchTokens, queue, resident, lookahead } = options;
    this.#options = options;
    const { shape, plan } = engine;
    this.#costs = new JobCosts(shape, plan.slot);
    const { kvPages, kvWindows } = engine.usage();
    this.#pages = new KvPages({
      encoderDecoder: isEncoderDecoder(shape),
      kvPages,
      kvPageTokens: options.pageTokens,
      kvWindows,
      maxBatchTokens,
    });
    const { linkBandwidth } = options;
    this.#planner = new PassPlanner({ engine, policy, queue, resident, linkBandwidth });
    this.#belady = new Belady(plan.experts, engine.usage().slots, lookahead);
    const explains = (job: number) => this.#costs.explains(job);
    const { experts: expertsPerLayer, topK } = shape;
    this.#quality = new RoutingQuality({ expertsPerLayer, topK, belady: this.#belady, explains });
    this.#tableWait = new TableWait(queue.arrivals, this.#counters);
    const outcomes: Outcomes = {
      tokens: (tokens) => options.emit({ type: 'tokens', tokens }),
      done: (item, job, results) => this.#done(item, job, results),
      failed: (job, error) => this.#failed.set(job, error),
    };
    const passes = new NativePasses({
      engine,
      planner: this.#planner,
      quality: this.#quality,
      maxBatchTokens,
      costs: this.#costs,
      counters: this.#counters,
      onJobError: outcomes.failed,
    });
    const inputs = new HeldInputs(engine, this.#pages, outcomes);
    const { stepTables } = options;
    const generations = new Generations({ engine, planner: this.#planner, stepTables, inputs, outcomes });
    this.#inputs = inputs;
    this.#generations = generations;
    this.#kind = openKind({
      engine,
      passes,
      tableWait: this.#tableWait,
      generations,
      inputs,
      outcomes,
    });
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

  /** Runs one round: control messages, new inputs, a step of all running inputs. Returns false if it was idle. */
  turn(): boolean {
    this.#readControl();
    if (this.#closed) return true;
    let batches = 0;
    while (this.#kind.takesMore(batches) && this.#startItems()) batches += 1;
    const stepped = this.#inputs.count > 0;
    if (stepped) profiled('step', () => this.#kind.step(), { tokens: this.#generations.count });
    for (const [job, error] of this.#failed) this.#failJob(job, error);
    this.#failed.clear();
    return batches > 0 || stepped;
  }

  #idle(seen: number): void {
    const begin = clockMs();
    this.#counters.thread.idleWaits += 1;
    let every = BUSY_COUNTERS_MS;
    this.#options.queue.idle = true;
    while (!this.#options.queue.arrivals.wait(seen, Math.max(0, this.#countersSentMs + every - clockMs()))) {
      this.#sendCounters();
      every = IDLE_COUNTERS_MS;
    }
    this.#options.queue.idle = false;
    this.#counters.thread.idleSeconds += (clockMs() - begin) / 1000;
  }

  #sendCounters(): void {
    this.#countersSentMs = clockMs();
    const { queue, engine, emit } = this.#options;
    const counters = this.#counters.snapshot({
      tablesQueued: queue.length,
      activeSequences: this.#generations.count,
      usage: engine.usage(),
      routingsPredicted: this.#quality.total.predicted,
      routingHitsNarrow: this.#quality.total.narrow,
      routingHitsWide: this.#quality.total.wide,
      tableWeight: this.#planner.tableWeight,
      beladyBytes: this.#belady.loads * engine.plan.slot,
      tables: this.#options.builderStats.figures(),
    });
    emit({ type: 'counters', counters });
  }

  #readControl(): void {
    for (;;) {
      const message = this.#options.nextControl();
      if (message === undefined) return;
      if (message.type === 'close') this.#closed = true;
      else if (message.type === 'cancel') this.#cancel(message.job, message.lastBatch);
      else if (message.type === 'stop') this.#generations.stop(message.item, message.choice);
      else this.#answer(message);
    }
  }

  #answer({ id, request }: Extract<ToInference, { type: 'control' }>): void {
    const { engine, emit } = this.#options;
    try {
      const reply = answerControl(request, engine);
      this.#planner.slotsChanged();
      this.#belady.slots = engine.usage().slots;
      emit({ type: 'control-reply', id, reply });
    } catch (cause) {
      const error = SidaError.from(cause);
      if (error.code === 'device_failed') throw error;
      emit({ type: 'control-error', id, error: error.toBody() });
    }
  }

  /** Starts inputs of the held batch, or of the next one. Returns false if none can start. */
  #startItems(): boolean {
    this.#held ??= this.#takeBatch();
    const held = this.#held;
    if (held === undefined) return false;
    const items = held.admit(this.#pages, (job) => this.#dropped.has(job));
    if (items.length > 0) {
      const tokens = items.reduce((sum, { tokens: { length } }) => sum + length, 0);
      const now = clockMs();
      for (const item of items) this.#costs.begin(item, now);
      profiled('batch', () => this.#kind.start(items, held), { batch: held.batch.id, tokens });
    }
    if (held.finished) {
      this.#held = undefined;
      this.#lastFinishedBatch = held.batch.id;
      for (const [job, lastBatch] of this.#dropped) if (lastBatch <= held.batch.id) this.#dropped.delete(job);
      return true;
    }
    if (items.length === 0 && this.#inputs.count === 0) {
      const { free, total } = this.#pages;
      throw new Error(
        `An input waits for KV pages, ${free} of ${total} are free and nothing runs. This is a bug.`,
      );
    }
    return items.length > 0;
  }

  #takeBatch(): HeldBatch | undefined {
    const queued = this.#options.queue.tryTake();
    if (queued === undefined) return undefined;
    this.#counters.thread.batches += 1;
    this.#quality.nextBatch();
    const tables = openTables(queued.tables);
    if (queued.batch.routingK > 0) this.#tableWait.finish(tables);
    else this.#tableWait.settle(tables);
    return new HeldBatch(queued.batch, tables);
  }

  #done(item: number, job: number, results: ItemResults): void {
    if (this.#failed.has(job)) return;
    const end = this.#costs.itemDone(job, clockMs());
    this.#options.emit({ type: 'done', item, job, ...results, ...(end && { end }) });
  }

  #cancel(job: number, lastBatch: number): void {
    this.#releaseJob(job);
    if (lastBatch > this.#lastFinishedBatch) this.#dropped.set(job, lastBatch);
    else this.#dropped.delete(job);
  }

  #failJob(job: number, error: SidaError): void {
    this.#releaseJob(job);
    // The main thread replies with a cancel, which carries the last batch whose items must be skipped.
    this.#dropped.set(job, Number.POSITIVE_INFINITY);
    this.#options.emit({ type: 'job-error', job, error: error.toBody() });
  }

  #releaseJob(job: number): void {
    this.#costs.drop(job);
    this.#generations.dropJob(job);
    this.#kind.dropJob(job);
    this.#inputs.dropJob(job);
  }
}
