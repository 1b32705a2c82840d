/** A worker's runs: claims jobs from the ledger, runs them in the engine and writes their outcomes to the ledger. */
import { randomUUID } from 'node:crypto';
import type { EngineHandle } from '../../engine/engine-handle.js';
import { type ErrorBody, SidaError } from '../../errors.js';
import type { Logger } from '../../observability/logger.js';
import type { JobResult } from '../../protocol/engine-messages.js';
import type { KeptEnd } from '../job-queue.js';
import { answerTooLarge } from '../refusals.js';
import { DeltaWriter } from './delta-writer.js';
import type { ClaimedRun } from './ledger-replies.js';
import { parseRequest, resultText } from './ledger-values.js';
import { persist } from './persist.js';
import { GIVEN_UP, type RedisLedger, type RunEnd } from './redis-ledger.js';
import { SoloGate } from './solo-gate.js';

export interface Run extends ClaimedRun {
  readonly abort: AbortController;
  /** The run has passed the gate to the engine. */
  inside: boolean;
  /** Monotonic time of the claim. */
  readonly sinceMs: number;
  /** No other job was in the engine at any time of the run. */
  alone: boolean;
  /** Why the run was aborted; undefined while it is not. */
  ended?: 'stopped' | 'handed back';
}

interface RunsOptions {
  engine: EngineHandle;
  ledger: RedisLedger;
  logger: Logger;
  /** Id of the worker. */
  worker: string;
  /** Most bytes of all kept answers together. */
  keptBytes: number;
  /** A worker that does not renew a run's lease for this long loses the job. */
  leaseMs: number;
  /** Called for each kept job that this worker ends. */
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

  /** Claims up to `room` jobs. `more` is true when other jobs may be waiting. */
  async claim(room: number): Promise<{ runs: Run[]; more: boolean }> {
    const { ledger, logger, worker, leaseMs } = this.#options;
    const token = randomUUID();
    const claimed = await this.#persist(() => ledger.claim({ token, worker, room, leaseMs }));
    for (const id of claimed.broken)
      logger.error({ job: id }, 'a job whose record in Redis is broken is dropped');
    for (const end of claimed.ended) this.#options.onKeptEnd?.(end);
    const runs = claimed.runs.map((run) => this.#add(run));
    // The worker may have started to leave during the claim.
    if (this.#leaving) for (const run of runs) this.#end(run, 'handed back');
    return { runs, more: claimed.more };
  }

  #add(claimed: ClaimedRun): Run {
    const abort = new AbortController();
    const run: Run = { ...claimed, abort, inside: false, alone: false, sinceMs: performance.now() };
    this.#runs.add(run);
    return run;
  }

  /** Runs a claimed job and writes its outcome. Resolves when both are done. */
  async finish(run: Run): Promise<void> {
    const leave = await this.#gate.enter(run.crashes >= 2);
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
    if (end === 'fenced') {
      this.#options.logger.warn({ job: run.id }, 'a late result was dropped: another run replaced this one');
    }
  }

  /** Ends the runs of a job that another process has ended. */
  stop(id: string): void {
    for (const run of this.#runs) if (run.id === id) this.#end(run, 'stopped');
  }

  /**
   * Renews the leases of all runs and ends the runs that no longer count. `serving` says whether the worker takes
   * jobs. Resolves with Redis's time in Unix milliseconds.
   */
  async beat(serving: boolean): Promise<number> {
    const { ledger, logger, worker, leaseMs } = this.#options;
    const runs = this.all;
    const { now, answers } = await ledger.beat(worker, serving, leaseMs, runs);
    answers.forEach((answer, at) => {
      const run = runs[at]!;
      if (answer === 'ok' || !this.#runs.has(run)) return;
      logger.warn({ job: run.id, answer }, 'a run is dropped');
      this.#end(run, 'stopped');
    });
    return now;
  }

  /** Stops waiting for the engine, and hands back the jobs of any claim still in progress. */
  leave(): void {
    this.#leaving = true;
    this.#wake();
  }

  /** Ends all runs and hands their jobs back. */
  handBack(): void {
    for (const run of this.#runs) this.#end(run, 'handed back');
  }

  close(): void {
    this.#closed = true;
    this.#offState();
  }

  /** Repeats the command until Redis is back. */
  #persist<T>(command: () => Promise<T>): Promise<T> {
    return persist(command, () => this.#closed);
  }

  /** Runs the job in the engine and writes the outcome to the ledger. */
  async #toEnd(run: Run): Promise<RunEnd> {
    const { ledger, logger } = this.#options;
    try {
      const result = await this.#compute(run);
      const text = resultText(result);
      this.#checkSize(text, run);
      const end = await this.#persist(() => ledger.complete(run.id, run.token, text));
      return this.#tell(run, end, result);
    } catch (thrown) {
      const error = SidaError.from(thrown);
      if (run.ended === 'stopped') return 'stopped';
      // The engine is shutting down, so the job is not at fault.
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

  #tell(run: Run, end: RunEnd, outcome: JobResult | ErrorBody): RunEnd {
    const { id, kind, createdMs, startedMs, sinceMs, attempt: attempts, sync } = run;
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
    const request = parseRequest(run.request);
    const full = new AbortController();
    const signal = AbortSignal.any([run.abort.signal, full.signal]);
    const deltas = new DeltaWriter({
      append: (from, all) => ledger.append(run.id, run.token, from, all),
      // Nobody could read what the run computes from here on.
      onError: () => full.abort(),
    });
    for (;;) {
      try {
        // The token distinguishes this run from an earlier run of the same job that may still be in the engine.
        const result = await engine.run(`${run.token}/${run.id}`, request, {
          signal,
          onDelta: (delta) => deltas.add(delta),
        });
        await deltas.written();
        return result;
      } catch (error) {
        if (deltas.error !== undefined && !run.abort.signal.aborted) throw deltas.error;
        // The engine was no longer ready when it received the job, so the job never ran.
        if (SidaError.from(error).code !== 'not_ready' || run.abort.signal.aborted) throw error;
        if (!(await this.#engineReady())) {
          this.#end(run, 'handed back');
          throw error;
        }
      }
    }
  }

  /** Throws cannot_run when one kept answer is larger than the limit for all kept answers. */
  #checkSize(text: string, { sync }: Run): void {
    const { keptBytes: limit } = this.#options;
    const bytes = Buffer.byteLength(text);
    if (!sync && bytes > limit) throw answerTooLarge(bytes, limit);
  }

  /** Waits for the engine. Resolves false when it cannot become ready any more, or when this worker leaves. */
  async #engineReady(): Promise<boolean> {
    for (;;) {
      const { phase } = this.#options.engine.state;
      if (this.#leaving || phase === 'failed' || phase === 'closed') return false;
      if (phase === 'ready') return true;
      await new Promise<void>((wake) => this.#engineChanged.push(wake));
    }
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
