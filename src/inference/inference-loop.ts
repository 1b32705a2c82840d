/** The inference thread's work: takes batches up, encodes, scores or generates, one native step after the other. */
import { SidaError } from '../errors.js';
import type { Engine } from '../native/addon-types.js';
import type { BuilderStats } from '../predictor/builder-stats.js';
import type { HashTable } from '../predictor/hash-table.js';
import type { QueueConsumer } from '../predictor/hash-table-queue.js';
import type { ResidentFlag } from '../predictor/resident-flag.js';
import { profiled } from '../profile/thread-events.js';
import { Belady } from './belady.js';
import { clockMs } from './clock.js';
import { InferenceCounters } from './counters.js';
import { answerControl } from './engine-control.js';
import type { EvictionPolicy } from './eviction/index.js';
import { openTables, visitsOf } from './expected-visits.js';
import { type Foreknowledge, tableRows } from './foreknowledge.js';
import { Foresight } from './foresight.js';
import { Generations } from './generations.js';
import { type AdmittedItem, HeldBatch } from './held-batch.js';
import { JobLedger } from './job-ledger.js';
import { KvPages } from './kv-pages.js';
import { type ScoringInput, scoreLabels } from './label-scoring.js';
import type { FromInference, QueuedBatch, ToInference } from './messages.js';
import { NativeSteps } from './native-steps.js';
import { ResidentTeller } from './resident-teller.js';
import { RoutingQuality } from './routing-quality.js';
import type { StepTables } from './step-tables.js';
import { TableWait } from './table-wait.js';

export interface InferenceLoopOptions {
  engine: Engine;
  pageTokens: number;
  maxBatchTokens: number;
  policy: EvictionPolicy;
  lookahead: number;
  /** Of a simulated link, bytes a second; 0: none. */
  linkBandwidth: number;
  builderStats: BuilderStats;
  resident: ResidentFlag;
  /** Null: nobody predicts generations. */
  stepTables: StepTables | null;
  queue: QueueConsumer<QueuedBatch>;
  tellsResident?: boolean;
  /** The next control message, if one has arrived. */
  nextControl: () => ToInference | undefined;
  emit: (message: FromInference) => void;
}

/** Counters go out this often while there is work, and this often without. */
const BUSY_COUNTERS_MS = 100;
const IDLE_COUNTERS_MS = 1000;

export class InferenceLoop {
  readonly #options: InferenceLoopOptions;
  readonly #counters = new InferenceCounters();
  readonly #ledger: JobLedger;
  readonly #pages: KvPages;
  readonly #steps: NativeSteps;
  readonly #foresight: Foresight;
  readonly #belady: Belady;
  readonly #quality: RoutingQuality;
  readonly #tableWait: TableWait;
  readonly #residents: ResidentTeller | undefined;
  readonly #decoderFirstLayer: number;
  readonly #generations: Generations;
  /** Jobs whose items are passed over, until this batch is finished. */
  readonly #dropped = new Map<number, number>();
  /** Jobs that failed in the running turn; released at its end, when no step names their contexts any more. */
  readonly #failed = new Map<number, SidaError>();
  #held: HeldBatch | undefined;
  #lastFinishedBatch = -1;
  #closed = false;
  #countersSentMs = 0;

  constructor(options: InferenceLoopOptions) {
    const { engine, policy, maxBatchTokens, queue, resident, lookahead } = options;
    this.#options = options;
    this.#ledger = new JobLedger(engine.shape.experts, engine.plan.slot);
    this.#pages = new KvPages(engine.usage().kvPages);
    this.#foresight = new Foresight({
      engine,
      policy,
      queue,
      resident,
      linkBandwidth: options.linkBandwidth,
    });
    const { experts: expertsPerLayer, moeLayers } = engine.shape;
    this.#decoderFirstLayer = moeLayers.filter((layer) => layer.startsWith('encoder.')).length;
    this.#belady = new Belady(engine.plan.experts, engine.usage().slots, lookahead);
    const explains = (job: number) => this.#ledger.explains(job);
    this.#quality = new RoutingQuality({ expertsPerLayer, belady: this.#belady, explains });
    this.#tableWait = new TableWait(queue.arrivals, this.#counters);
    if (options.tellsResident) this.#residents = new ResidentTeller(engine, options.emit);
    this.#steps = new NativeSteps({
      engine,
      foresight: this.#foresight,
      quality: this.#quality,
      maxBatchTokens,
      ledger: this.#ledger,
      counters: this.#counters,
      onJobError: (job, error) => this.#failed.set(job, error),
    });
    this.#generations = new Generations({
      engine,
      steps: this.#steps,
      foresight: this.#foresight,
      stepTables: options.stepTables,
      pages: this.#pages,
      decoderFirstLayer: this.#decoderFirstLayer,
    });
  }

  /** Runs until it is told to close; blocks its thread. */
  run(): void {
    const { queue } = this.#options;
    while (!this.#closed) {
      const seen = queue.arrivals.rings;
      if (!this.turn()) profiled('idle', () => this.#idle(seen));
      else {
        this.#residents?.changed();
        if (clockMs() - this.#countersSentMs >= BUSY_COUNTERS_MS) this.#sendCounters();
      }
    }
    this.#options.engine.close();
    this.#options.emit({ type: 'closed' });
  }

  /** One round: control messages, then new inputs, then a decode step. False when there was nothing to do. */
  turn(): boolean {
    this.#readControl();
    if (this.#closed) return true;
    const started = this.#startItems();
    const stepped = this.#generations.count > 0;
    if (stepped) profiled('step', () => this.#stepGenerations(), { tokens: this.#generations.count });
    for (const [job, error] of this.#failed) this.#failJob(job, error);
    this.#failed.clear();
    return started || stepped;
  }

  #idle(seen: number): void {
    const begin = clockMs();
    this.#counters.idleWaits += 1;
    this.#residents?.settled();
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
    const counters = this.#counters.snapshot({
      tablesQueued: queue.length,
      activeSequences: this.#generations.count,
      usage: engine.usage(),
      routingsPredicted: this.#quality.total.predicted,
      routingHitsTop1: this.#quality.total.top1,
      routingHitsTop3: this.#quality.total.top3,
      tableWeight: this.#foresight.tableWeight,
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
      else if (message.type === 'stop') this.#stop(message.item);
      else this.#answer(message);
    }
  }

  #answer({ id, request }: Extract<ToInference, { type: 'control' }>): void {
    const { engine, emit } = this.#options;
    try {
      const reply = answerControl(request, engine);
      this.#foresight.slotsChanged();
      this.#belady.slots = engine.usage().slots;
      emit({ type: 'control-reply', id, reply });
    } catch (cause) {
      const error = SidaError.from(cause);
      if (error.code === 'device_failed') throw error;
      emit({ type: 'control-error', id, error: error.toBody() });
    }
  }

  #startItems(): boolean {
    this.#held ??= this.#takeBatch();
    const held = this.#held;
    if (held === undefined) return false;
    const items = held.admit(this.#pages, this.#options.pageTokens, (job) => this.#dropped.has(job));
    if (items.length > 0) {
      const tokens = items.reduce((sum, { tokens: { length } }) => sum + length, 0);
      profiled('batch', () => this.#encode(held, items), { batch: held.batch.id, tokens });
    }
    if (held.finished) {
      this.#held = undefined;
      this.#lastFinishedBatch = held.batch.id;
      for (const [job, lastBatch] of this.#dropped) if (lastBatch <= held.batch.id) this.#dropped.delete(job);
      return true;
    }
    if (items.length === 0 && this.#generations.count === 0) {
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
    this.#counters.batches += 1;
    this.#quality.nextBatch();
    const tables = openTables(queued.tables);
    if (queued.batch.routingK > 0) this.#tableWait.finish(tables);
    else this.#tableWait.settle(tables);
    return new HeldBatch(queued.batch, tables);
  }

  #encode(held: HeldBatch, items: AdmittedItem[]): void {
    const { engine } = this.#options;
    const now = clockMs();
    for (const item of items) this.#ledger.begin(item, now);
    const offsets = new Int32Array(items.length + 1);
    items.forEach(({ tokens }, i) => {
      offsets[i + 1] = offsets[i]! + tokens.length;
    });
    const tokens = new Int32Array(offsets[items.length]!);
    items.forEach((item, i) => {
      tokens.set(item.tokens, offsets[i]!);
    });
    const { encoder, decoder } = held.tables;
    const labels = visitsOf(decoder, this.#decoderFirstLayer);
    const { routingK } = held.batch;
    const rows = items.flatMap(({ begin, tokens: ids }) => Array.from(ids, (_, t) => begin + t));
    const known: Foreknowledge = {
      own: visitsOf(encoder, 0),
      behind: labels,
      predicted: tableRows(encoder, rows),
      routingK,
    };
    const contexts = items.map(() => this.#steps.newId());
    const jobs = items.map(({ job }) => job);
    const begin = clockMs();
    if (!this.#steps.encode(contexts, jobs, offsets, tokens, known)) {
      for (const { pages } of items) this.#pages.release(pages);
      return;
    }
    this.#tableWait.passTook(clockMs() - begin);
    const scoring: (ScoringInput & { pages: number; labelBegin: number })[] = [];
    items.forEach(({ item, job, work, pages, labelBegin }, i) => {
      const context = contexts[i]!;
      if (work.kind === 'score') {
        scoring.push({ item, job, context, plan: work.plan, pages, labelBegin });
        return;
      }
      const { maxTokens: tokensLeft, logprobs } = work;
      const nextToken = engine.shape.decoderStartTokenId;
      const sequence = this.#steps.newId();
      this.#generations.begin(
        { item, job, context, sequence, pages, nextToken, tokensLeft, logprobs, routingK },
        items[i]!.tokens,
      );
    });
    if (scoring.length > 0) this.#score(scoring, decoder, routingK);
  }

  #score(
    inputs: (ScoringInput & { pages: number; labelBegin: number })[],
    table: HashTable | null,
    routingK: number,
  ): void {
    const { engine } = this.#options;
    const rows = inputs.flatMap(({ plan, labelBegin }) => {
      const tokens = plan.inputs.reduce((sum, input) => sum + input.tokens.length, 0);
      return Array.from({ length: tokens }, (_, t) => labelBegin + t);
    });
    const known: Foreknowledge = {
      own: visitsOf(table, this.#decoderFirstLayer),
      behind: [],
      predicted: tableRows(table, rows),
      routingK,
    };
    const { scored, failed, sequences } = scoreLabels(inputs, this.#steps, known);
    engine.releaseSequences(Int32Array.from(sequences));
    engine.releaseContexts(Int32Array.from(inputs, ({ context }) => context));
    for (const { pages } of inputs) this.#pages.release(pages);
    for (const { input, error } of failed) this.#failed.set(input.job, error);
    for (const { input, scores } of scored) this.#done(input.item, input.job, scores);
  }

  #stepGenerations(): void {
    const { tokens, finished, failed } = this.#generations.step();
    if (tokens.length > 0) this.#options.emit({ type: 'tokens', tokens });
    for (const { item, job } of finished) this.#done(item, job);
    for (const { generation, error } of failed) this.#failed.set(generation.job, error);
  }

  #done(item: number, job: number, scores?: number[]): void {
    if (this.#failed.has(job)) return;
    const end = this.#ledger.itemDone(job, clockMs());
    this.#options.emit({ type: 'done', item, job, ...(scores && { scores }), ...(end && { end }) });
  }

  #stop(item: number): void {
    const generation = this.#generations.stop(item);
    // Its last token and this message may have crossed.
    if (generation !== undefined) this.#done(item, generation.job);
  }

  #cancel(job: number, lastBatch: number): void {
    this.#releaseJob(job);
    if (lastBatch > this.#lastFinishedBatch) this.#dropped.set(job, lastBatch);
    else this.#dropped.delete(job);
  }

  #failJob(job: number, error: SidaError): void {
    this.#releaseJob(job);
    // The main thread answers with a cancel, which says how long to pass over its items.
    this.#dropped.set(job, Number.POSITIVE_INFINITY);
    this.#options.emit({ type: 'job-error', job, error: error.toBody() });
  }

  #releaseJob(job: number): void {
    this.#ledger.drop(job);
    this.#generations.releaseJob(job);
  }
}
