/** The native engine's passes with their accounts: passes counted, costs booked, errors turned into failed jobs. */
import { SidaError } from '../errors.js';
import type { Engine, NativeBatch, RunResult } from '../native/addon-types.js';
import { profiled } from '../profile/thread-events.js';
import type { InferenceCounters } from './counters.js';
import { type Foreknowledge, partOf, routingOf } from '../predictor/pass-forecast.js';
import type { Foresight } from './pass-planner.js';
import type { JobLedger } from './job-costs.js';
import { type PassAnswer, type PassSequence, passAnswers, passBatch } from '../batching/pass-batch.js';
import type { RoutingQuality } from './routing-quality.js';

export interface NativeStepsOptions {
  engine: Engine;
  foresight: Foresight;
  quality: RoutingQuality;
  ledger: JobLedger;
  counters: InferenceCounters;
  maxBatchTokens: number;
  /** Called when a pass failed, once for each job that took part. */
  onJobError: (job: number, error: SidaError) => void;
}

export class NativeSteps {
  readonly #options: NativeStepsOptions;
  #nextId = 0;

  constructor(options: NativeStepsOptions) {
    this.#options = options;
  }

  get maxBatchTokens(): number {
    return this.#options.maxBatchTokens;
  }

  /** An id unused among live sequences. */
  newId(): number {
    this.#nextId = (this.#nextId + 1) & 0x7fffffff;
    return this.#nextId;
  }

  /** One pass; null when it failed and its jobs with it. `known` has the sequences' tokens in order. */
  run(stack: number, sequences: readonly PassSequence[], known: Foreknowledge): PassAnswer[] | null {
    const { engine, foresight, quality, ledger, counters, onJobError } = this.#options;
    const jobs = sequences.map(({ job }) => job);
    try {
      const batch = passBatch(stack, sequences);
      const plan = profiled('plan', () => foresight.plan(known));
      const result: RunResult = engine.runBatch(routed(batch, known), plan);
      foresight.judge(result, known.own);
      counters.addPass(result.stats, batch.tokens.length);
      profiled('account', () =>
        ledger.add(result, jobs, batch.offsets, quality.judge(result, jobs, batch, known)),
      );
      return passAnswers(sequences, result);
    } catch (cause) {
      const error = SidaError.from(cause);
      // A broken invariant or device leaves an engine nobody should be served from: the process ends and is replaced.
      if (error.code === 'internal' || error.code === 'device_failed') throw error;
      for (const job of new Set(jobs)) onJobError(job, error);
      return null;
    }
  }

  /**
   * Runs the sequences in as few passes as their tokens allow and hands each its answer. A sequence whose pass failed
   * is left out, its job has failed.
   */
  runAll(
    stack: number,
    sequences: readonly PassSequence[],
    known: Foreknowledge,
    take: (index: number, answer: PassAnswer) => void,
  ): void {
    let token = 0;
    for (let begin = 0; begin < sequences.length; ) {
      const end = this.#passEnd(sequences, begin);
      const pass = sequences.slice(begin, end);
      const tokens = pass.reduce((sum, sequence) => sum + sequence.tokens.length, 0);
      const answers = this.run(stack, pass, partOf(known, token, tokens));
      token += tokens;
      for (const [i, answer] of answers?.entries() ?? []) take(begin + i, answer);
      begin = end;
    }
  }

  #passEnd(sequences: readonly PassSequence[], begin: number): number {
    let tokens = 0;
    let end = begin;
    for (; end < sequences.length; end++) {
      tokens += sequences[end]!.tokens.length;
      if (end > begin && tokens > this.#options.maxBatchTokens) break;
    }
    return end;
  }
}

function routed(batch: NativeBatch, { predicted, routingK }: Foreknowledge): NativeBatch {
  if (routingK === 0) return batch;
  if (predicted === null) throw cannotRoute();
  return { ...batch, routing: routingOf(predicted, routingK) };
}

export function cannotRoute(): SidaError {
  return new SidaError({
    code: 'cannot_run',
    message: 'The predictor cannot name the experts of this input, and nothing else routes it',
  });
}
