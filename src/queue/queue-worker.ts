/**
 * Takes jobs of a queue in Redis and runs them in this process's engine. The loop here renews locks and never computes: the
 * engine is another process. What counts is the ledger's token, not BullMQ's lock: a run that lost its token is dropped.
 */
import { randomUUID } from 'node:crypto';
import { type Job, type Queue, WaitingError, Worker } from 'bullmq';
import { type Redis, ReplyError } from 'ioredis';
import type { EngineHandle, EngineState } from '../engine/engine-handle.js';
import type { JobResult, ModelInfo } from '../engine/messages.js';
import { SidaError } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import { bullmqQueue, idOf } from './bullmq-entry.js';
import { parseRequest, resultText } from './ledger-values.js';
import { PieceWriter } from './piece-writer.js';
import { publishModel } from './published-models.js';
import { KEY_PREFIX } from './queue-name.js';
import { logFaults, subscriberClient, workerClient } from './redis-client.js';
import { type Begun, type LedgerLimits, RedisLedger, type RunEnd } from './redis-ledger.js';
import { answerTooLarge } from './refusals.js';
import { SoloGate } from './solo-gate.js';
import { sweep } from './sweep.js';

export interface QueueWorkerOptions extends LedgerLimits {
  url: string;
  queueName: string;
  /** Jobs in the engine at a time; the engine batches them. */
  concurrency: number;
  lockDurationMs: number;
  stalledIntervalMs: number;
  maxStalledCount: number;
}

interface Run {
  id: string;
  token: string;
  abort: AbortController;
  /** No other job was in the engine at any time of it. */
  alone: boolean;
  /** Why it was aborted. */
  ended?: 'stopped' | 'handed back';
}

/** Between a worker's signs of life, looks for jobs that ended elsewhere, and sweeps. */
const ALIVE_MS = 2_000;
/** Between tries of a ledger command that failed. */
const AGAIN_MS = 500;

export class QueueWorker {
  readonly id = randomUUID();
  readonly #engine: EngineHandle;
  readonly #model: ModelInfo;
  readonly #options: QueueWorkerOptions;
  readonly #logger: Logger;
  readonly #tell: (error: Error) => void;
  readonly #client: Redis;
  readonly #subscriber: Redis;
  readonly #ledger: RedisLedger;
  readonly #bullmq: Queue;
  readonly #worker: Worker;
  readonly #gate = new SoloGate();
  readonly #runs = new Set<Run>();
  readonly #timer: NodeJS.Timeout;
  readonly #offState: () => void;
  #engineChanged: (() => void)[] = [];
  #beating = false;
  #leaving = false;
  #closed = false;
  #closing: Promise<boolean> | undefined;

  /** Starts at once. `engine` has been ready. */
  constructor(engine: EngineHandle, model: ModelInfo, options: QueueWorkerOptions, logger: Logger) {
    const { url, queueName, concurrency, lockDurationMs, stalledIntervalMs, maxStalledCount } = options;
    this.#engine = engine;
    this.#model = model;
    this.#options = options;
    this.#logger = logger;
    this.#tell = logFaults(logger);
    this.#client = workerClient(url).on('error', this.#tell);
    this.#subscriber = subscriberClient(url).on('error', () => undefined);
    this.#ledger = new RedisLedger(this.#client, queueName, options);
    this.#bullmq = bullmqQueue(queueName, this.#client, options.attempts);
    this.#worker = new Worker(queueName, (job) => this.#process(job), {
      prefix: KEY_PREFIX,
      connection: this.#client,
      concurrency,
      lockDuration: lockDurationMs,
      stalledInterval: stalledIntervalMs,
      maxStalledCount,
      // What BullMQ waits after a lost connection: by default longer than anyone should wait for it.
      runRetryDelay: 1_000,
    });
    this.#worker.on('error', this.#tell);
    this.#subscriber.on('ready', () => this.#subscriber.subscribe(this.#ledger.stops).catch(() => undefined));
    this.#subscriber.on('message', (_channel, id: string) => {
      for (const run of this.#runs) if (run.id === id) this.#end(run, 'stopped');
    });
    this.#offState = engine.onState((state) => this.#onEngineState(state));
    this.#timer = setInterval(() => void this.#beat(), ALIVE_MS);
    this.#client.on('ready', () => void this.#beat());
  }

  get queueName(): string {
    return this.#options.queueName;
  }

  /** Takes no more jobs, gives running ones up to `drainMs` and hands back the rest. Resolves true when there was none. */
  close(drainMs: number): Promise<boolean> {
    this.#closing ??= this.#close(drainMs);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<boolean> {
    this.#leaving = true;
    for (const wake of this.#engineChanged.splice(0)) wake();
    let finished = true;
    const closing = this.#worker.close();
    const timer = setTimeout(() => {
      finished = this.#runs.size === 0;
      for (const run of this.#runs) this.#end(run, 'handed back');
    }, drainMs);
    // Without Redis nothing can be told; what is left is run elsewhere once its lock has run out.
    const away = this.#client.status !== 'ready' && this.#runs.size === 0;
    await Promise.race([closing, later((away ? 0 : drainMs) + 2_000)]);
    clearTimeout(timer);
    this.#closed = true;
    clearInterval(this.#timer);
    this.#offState();
    await Promise.race([this.#ledger.gone(this.id).catch(() => undefined), later(500)]);
    this.#client.disconnect();
    this.#subscriber.disconnect();
    return finished;
  }

  async #process(job: Job): Promise<void> {
    const id = idOf(job.id!);
    const run: Run = { id, token: randomUUID(), abort: new AbortController(), alone: false };
    if (!(await this.#engineReady())) return this.#putBack(job);
    const begun = await this.#begin(run);
    if (begun === undefined) return;
    const leave = await this.#gate.enter(begun.crashes >= 2);
    for (const other of this.#runs) other.alone = false;
    run.alone = this.#runs.size === 0;
    this.#runs.add(run);
    let end: RunEnd;
    try {
      end = await this.#runToEnd(run, begun);
    } finally {
      this.#runs.delete(run);
      leave();
    }
    if (end === 'fenced')
      this.#logger.warn({ job: id }, 'a late result was dropped: another run replaced it');
    if (end !== 'retry') return;
    if (run.ended === 'handed back') return this.#putBack(job);
    throw new Error('The engine stopped while it ran this job');
  }

  async #begin(run: Run): Promise<Begun | undefined> {
    try {
      return await this.#persist(() => this.#ledger.begin(run.id, run.token));
    } catch (error) {
      if (!isReply(error)) throw error;
      // The record's key holds something that is no record.
      this.#logger.error({ job: run.id, reason: (error as Error).message }, 'a broken job is dropped');
      await this.#persist(() => this.#ledger.forget(run.id));
      return undefined;
    }
  }

  /** Runs the job and writes what became of it. */
  async #runToEnd(run: Run, begun: Begun): Promise<RunEnd> {
    try {
      const result = await this.#compute(run, begun);
      const text = resultText(result);
      this.#checkSize(text, begun);
      return await this.#persist(() => this.#ledger.complete(run.id, run.token, text));
    } catch (thrown) {
      const error = SidaError.from(thrown);
      if (run.ended === 'stopped') return 'stopped';
      // An engine that was told to end says nothing about the job.
      if (error.code === 'shutting_down') this.#end(run, 'handed back');
      if (run.ended === 'handed back') return this.#persist(() => this.#ledger.handBack(run.id, run.token));
      if (error.code === 'engine_crashed') {
        return this.#persist(() => this.#ledger.crash(run.id, run.token, run.alone));
      }
      if (error.code === 'internal') this.#logger.error({ job: run.id, err: error }, 'job failed');
      return this.#persist(() => this.#ledger.fail(run.id, run.token, error.toBody()));
    }
  }

  async #compute(run: Run, { request: text }: Begun): Promise<JobResult> {
    const request = parseRequest(text);
    const { signal } = run.abort;
    const pieces = new PieceWriter((all) => this.#ledger.append(run.id, run.token, all));
    for (;;) {
      try {
        // The token names the run in the engine: a job that comes back while its frozen run is still in there is another run.
        const result = await this.#engine.run(run.token, request, {
          signal,
          onDelta: (delta) => pieces.add(delta),
        });
        await pieces.written();
        return result;
      } catch (error) {
        // The engine left `ready` between the look and the run: the job never ran.
        if (SidaError.from(error).code !== 'not_ready' || run.abort.signal.aborted) throw error;
        if (!(await this.#engineReady())) {
          this.#end(run, 'handed back');
          throw error;
        }
      }
    }
  }

  /** An answer that is kept must fit among those that are. */
  #checkSize(text: string, { sync }: Begun): void {
    const { keptBytes: limit } = this.#options;
    const bytes = Buffer.byteLength(text);
    if (!sync && bytes > limit) throw answerTooLarge(bytes, limit);
  }

  #end(run: Run, as: 'stopped' | 'handed back'): void {
    if (run.ended !== undefined) return;
    run.ended = as;
    run.abort.abort();
  }

  /** Back into the queue, for another worker, and without counting as a failure. */
  async #putBack(job: Job): Promise<never> {
    await job.moveToWait(job.token!);
    throw new WaitingError();
  }

  /** False: it never will be, or this worker leaves. */
  async #engineReady(): Promise<boolean> {
    for (;;) {
      const { phase } = this.#engine.state;
      if (this.#leaving || phase === 'failed' || phase === 'closed') return false;
      if (phase === 'ready') return true;
      await new Promise<void>((wake) => this.#engineChanged.push(wake));
    }
  }

  #onEngineState({ phase }: EngineState): void {
    for (const wake of this.#engineChanged.splice(0)) wake();
    if (this.#leaving) return;
    // Jobs that wait for this engine would wait less for another one.
    if (phase === 'ready') void this.#worker.resume();
    else void this.#worker.pause(true);
  }

  /** Tries until Redis is back. A reply that is an error is final. */
  async #persist<T>(command: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await command();
      } catch (error) {
        if (isReply(error) || error instanceof SidaError || this.#closed) throw error;
        await later(AGAIN_MS);
      }
    }
  }

  async #beat(): Promise<void> {
    if (this.#beating || this.#client.status !== 'ready') return;
    this.#beating = true;
    try {
      if (this.#engine.state.phase === 'ready' && !this.#leaving) {
        const now = await this.#ledger.alive(this.id);
        await publishModel(this.#client, {
          queueName: this.#options.queueName,
          seenMs: now,
          model: this.#model,
        });
      }
      const runs = [...this.#runs];
      // Deadlines hold without any server.
      await this.#ledger.status();
      const answers = await this.#ledger.check(runs);
      answers.forEach((answer, at) => {
        if (answer === 'ok') return;
        this.#logger.warn({ job: runs[at]!.id, answer }, 'a run is dropped');
        this.#end(runs[at]!, 'stopped');
      });
      if (!this.#leaving) await sweep(this.#ledger, this.#bullmq, this.#logger);
    } catch (error) {
      if (!this.#closed) this.#tell(error as Error);
    } finally {
      this.#beating = false;
    }
  }
}

/** Redis refuses the command itself, and would again. */
function isReply(error: unknown): boolean {
  return (
    error instanceof ReplyError && !/^(OOM|LOADING|READONLY|BUSY|MISCONF)/.test((error as Error).message)
  );
}

function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
