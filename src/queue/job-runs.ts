/** A worker's runs of jobs: begun in the ledger, computed by the engine, and what became of them written to the ledger. */
import { randomUUID } from 'node:crypto';
import type { EngineHandle } from '../engine/engine-handle.js';
import { type ErrorBody, SidaError } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import type { JobResult } from '../protocol/engine-messages.js';
import type { KeptEnd } from './job-queue.js';
import { parseRequest, resultText } from './ledger-values.js';
import { isReply, persist } from './persist.js';
import { PieceWriter } from './piece-writer.js';
import { type Begun, GIVEN_UP, type RedisLedger, type RunEnd } from './redis-ledger.js';
import { answerTooLarge } from './refusals.js';
import { SoloGate } from './solo-gate.js';

export interface Run {
  readonly id: string;
  readonly token: string;
  readonly begun: Begun;
  readonly abort: AbortController;
  /** It is in the engine, or next. */
  inside: boolean;
  readonly sinceMs: number;
  /** No other job was in the engine at any time of it. */
  alone: boolean;
  /** Why it was aborted. */
  ended?: 'stopped' | 'handed back';
}

/** What is to become of the job's place in BullMQ: it ends, another run follows, or another worker's does. */
export type AfterRun = 'over' | 'again' | 'elsewhere';

export interface RunsOptions {
  engine: EngineHandle;
  ledger: RedisLedger;
  logger: Logger;
  /** Bytes of the answers of all ended jobs that are kept. */
  keptBytes: number;
  /** Told of kept jobs that this worker ended. */
  onKeptEnd?: ((end: KeptEnd) => void) | undefined;
}

export class JobRuns {
  readonly #options: RunsOptions;
  readonly #gate = new SoloGate();
  readonly #runs = new Set<Run>();
  readonly #offState: () => void;
  #engineChanged: (() => void)[] = [];
  #leaving = false;
  #closed = false;

  constructor(options: RunsOptions) {
    this.#options = options;
    this.#offState = options.engine.onState(() => this.#wake());
  }

  get all(): Run[] {
    return [...this.#runs];
  }

  /** False: the engine never will be, or this worker leaves. */
  async engineReady(): Promise<boolean> {
    for (;;) {
      const { phase } = this.#options.engine.state;
      if (this.#leaving || phase === 'failed' || phase === 'closed') return false;
      if (phase === 'ready') return true;
      await new Promise<void>((wake) => this.#engineChanged.push(wake));
    }
  }

  /** Undefined: there is nothing to run. */
  async begin(id: string): Promise<Run | undefined> {
    const { ledger, logger } = this.#options;
    const token = randomUUID();
    try {
      const begun = await this.#persist(() => ledger.begin(id, token));
      if (begun !== undefined && 'status' in begun) this.#options.onKeptEnd?.(begun);
      return begun === undefined || 'status' in begun ? undefined : this.#add(id, token, begun);
    } catch (error) {
      if (!isReply(error)) throw error;
      // The record's key holds something that is no record.
      logger.error({ job: id, reason: (error as Error).message }, 'a broken job is dropped');
      await this.#persist(() => ledger.forget(id));
      return undefined;
    }
  }

  #add(id: string, token: string, begun: Begun): Run {
    const abort = new AbortController();
    const run: Run = { id, token, begun, abort, inside: false, alone: false, sinceMs: performance.now() };
    this.#runs.add(run);
    return run;
  }

  /** Runs it to its end. */
  async finish(run: Run): Promise<AfterRun> {
    const leave = await this.#gate.enter(run.begun.crashes >= 2);
    const inside = this.all.filter((other) => other.inside);
    for (const other of inside) other.alone = false;
    run.alone = inside.length === 0;
    run.inside = true;
    let end: RunEnd;
    try {
      end = await this.#toEnd(run);
    } finally {
      this.#runs.delete(run);
      leave();
    }
    const { logger } = this.#options;
    if (end === 'fenced') logger.warn({ job: run.id }, 'a late result was dropped: another run replaced it');
    if (end !== 'retry') return 'over';
    return run.ended === 'handed back' ? 'elsewhere' : 'again';
  }

  /** Ends the runs of a job that was ended elsewhere. */
  stop(id: string): void {
    for (const run of this.#runs) if (run.id === id) this.#end(run, 'stopped');
  }

  /** Drops the runs that no longer count. */
  async check(): Promise<void> {
    const runs = this.all;
    const answers = await this.#options.ledger.check(runs);
    answers.forEach((answer, at) => {
      if (answer === 'ok') return;
      this.#options.logger.warn({ job: runs[at]!.id, answer }, 'a run is dropped');
      this.#end(runs[at]!, 'stopped');
    });
  }

  /** No run waits for the engine any more. */
  leave(): void {
    this.#leaving = true;
    this.#wake();
  }

  handBack(): void {
    for (const run of this.#runs) this.#end(run, 'handed back');
  }

  close(): void {
    this.#closed = true;
    this.#offState();
  }

  /** Tries until Redis is back. */
  #persist<T>(command: () => Promise<T>): Promise<T> {
    return persist(command, () => this.#closed);
  }

  /** Computes, and writes what became of it. */
  async #toEnd(run: Run): Promise<RunEnd> {
    const { ledger, logger } = this.#options;
    try {
      const result = await this.#compute(run);
      const text = resultText(result);
      this.#checkSize(text, run.begun);
      const end = await this.#persist(() => ledger.complete(run.id, run.token, text));
      return this.#tell(run, end, result);
    } catch (thrown) {
      const error = SidaError.from(thrown);
      if (run.ended === 'stopped') return 'stopped';
      // An engine that was told to end says nothing about the job.
      if (error.code === 'shutting_down') this.#end(run, 'handed back');
      if (run.ended === 'handed back') return this.#persist(() => ledger.handBack(run.id, run.token));
      if (error.code === 'engine_crashed') {
        const end = await this.#persist(() => ledger.crash(run.id, run.token, run.alone));
        return this.#tell(run, end, JSON.parse(GIVEN_UP) as ErrorBody);
      }
      if (error.code === 'internal') logger.error({ job: run.id, err: error }, 'job failed');
      const end = await this.#persist(() => ledger.fail(run.id, run.token, error.toBody()));
      return this.#tell(run, end, error.toBody());
    }
  }

  #tell({ id, begun, sinceMs }: Run, end: RunEnd, outcome: JobResult | ErrorBody): RunEnd {
    const { kind, createdMs, startedMs, attempt: attempts, sync } = begun;
    if (end !== 'ended' || sync) return end;
    const failed = 'code' in outcome;
    this.#options.onKeptEnd?.({
      id,
      kind,
      status: failed ? 'failed' : 'completed',
      createdMs,
      startedMs,
      finishedMs: startedMs + Math.round(performance.now() - sinceMs),
      attempts,
      result: failed ? null : outcome,
      error: failed ? outcome : null,
    });
    return end;
  }

  async #compute(run: Run): Promise<JobResult> {
    const { engine, ledger } = this.#options;
    const request = parseRequest(run.begun.request);
    const { signal } = run.abort;
    const pieces = new PieceWriter((all) => ledger.append(run.id, run.token, all));
    for (;;) {
      try {
        // The token names the run in the engine: a job that comes back while its frozen run is still in there is another run.
        const result = await engine.run(run.token, request, {
          signal,
          onDelta: (delta) => pieces.add(delta),
        });
        await pieces.written();
        return result;
      } catch (error) {
        // The engine left `ready` between the look and the run: the job never ran.
        if (SidaError.from(error).code !== 'not_ready' || run.abort.signal.aborted) throw error;
        if (!(await this.engineReady())) {
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

  #wake(): void {
    for (const wake of this.#engineChanged.splice(0)) wake();
  }
}
