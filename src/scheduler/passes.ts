/** Runs native passes, counts them, charges their cost to jobs, and turns their errors into failed jobs. */

import { SidaError } from '../errors.js';
import { cannotRoute, type PassForecast, partOf, routingOf } from '../forecast/pass-forecast.js';
import type { Engine, NativeBatch, PassNeeds, RunResult } from '../native/addon-types.js';
import { profiled } from '../profile/thread-events.js';
import { addPass, type Counters } from '../protocol/counters.js';
import type { PassMeter } from '../quote/pass-rates.js';
import type { JobCosts, PredictorHits } from './costs.js';
import { type PassAnswer, type PassSequence, passAnswers, passBatch } from './pass-batch.js';
import { tokenExperts } from './token-experts.js';

/** Whether each sequence of a pass is fed one token. */
export type PassKind = 'steps' | 'prompts';

/** Gathers the needs of each pass for the native planner. */
export interface Planner {
  /** Whether forecasts are useful, which they are if experts may have to be evicted. */
  readonly needsForecast: boolean;
  /** Seconds that forecasts saved such passes since the last call. Undefined if none used a forecast. */
  takeSaved(kind: PassKind): number | undefined;
  /** Returns null if every expert has a slot, since nothing is ever evicted then. */
  needs(known: Pick<PassForecast, 'own' | 'behind' | 'routingK'>, kind: PassKind): PassNeeds | null;
  /** Learns from a finished pass of so many tokens. */
  judge(result: Pick<RunResult, 'stats' | 'layers'>, kind: PassKind, tokens: number): void;
  /** Call it where the budget may have changed. */
  slotsChanged(): void;
}

/** Runs native passes and accounts for them. */
export interface PassRunner {
  /** Most tokens in one pass. */
  readonly maxBatchTokens: number;
  /** An id unused among live sequences. */
  newId(): number;
  /**
   * Runs one pass. Returns null if the pass failed, which also fails its jobs. The forecast's rows follow the order
   * of the sequences' tokens.
   */
  run(stack: number, sequences: readonly PassSequence[], forecast: PassForecast): PassAnswer[] | null;
  /**
   * Runs the sequences in as few passes as their tokens allow and calls `take` with the answer of each. Sequences of
   * a failed pass get no call; their jobs have failed.
   */
  runAll(
    stack: number,
    sequences: readonly PassSequence[],
    forecast: PassForecast,
    take: (index: number, answer: PassAnswer) => void,
  ): void;
}

interface NativePassesOptions {
  engine: Engine;
  planner: Planner;
  /** MoE layers whose routers name experts ahead; 0 is off. */
  routeAhead: number;
  hits: PredictorHits;
  costs: JobCosts;
  counters: Counters;
  meter: PassMeter;
  maxBatchTokens: number;
  /** Called when a pass fails, once for each job in it. */
  onJobError: (job: number, error: SidaError) => void;
}

export class NativePasses implements PassRunner {
  readonly #options: NativePassesOptions;
  #nextId = 0;

  constructor(options: NativePassesOptions) {
    this.#options = options;
  }

  get maxBatchTokens(): number {
    return this.#options.maxBatchTokens;
  }

  newId(): number {
    this.#nextId = (this.#nextId + 1) & 0x7fffffff;
    return this.#nextId;
  }

  run(stack: number, sequences: readonly PassSequence[], forecast: PassForecast): PassAnswer[] | null {
    const { engine, planner, routeAhead, hits, costs, counters, meter, onJobError } = this.#options;
    const jobs = sequences.map(({ job }) => job);
    try {
      const batch = passBatch(stack, sequences);
      const kind = batch.tokens.length > sequences.length ? 'prompts' : 'steps';
      const needs = planner.needs(forecast, kind);
      const result: RunResult = engine.runBatch(
        { ...routed(batch, forecast), routeAhead: planner.needsForecast ? routeAhead : 0 },
        needs,
      );
      planner.judge(result, kind, batch.tokens.length);
      addPass(counters, result.stats, batch.tokens.length);
      meter.add({ stack, tokens: batch.tokens.length, sequences: sequences.length }, result.stats);
      profiled('account', () => costs.add(result, jobs, batch.offsets, hits.count(result, batch, forecast)));
      const answers = passAnswers(sequences, result);
      this.#addExperts(answers, sequences, batch, result, forecast);
      return answers;
    } catch (cause) {
      const error = SidaError.from(cause);
      // After a broken invariant or a device error no answer can be trusted, so the process ends and is replaced.
      if (error.code === 'internal' || error.code === 'device_failed') throw error;
      for (const job of new Set(jobs)) onJobError(job, error);
      return null;
    }
  }

  #addExperts(
    answers: readonly PassAnswer[],
    sequences: readonly PassSequence[],
    { offsets, tokens }: NativeBatch,
    result: RunResult,
    forecast: PassForecast,
  ): void {
    const { moeLayers } = this.#options.engine.shape;
    for (const [i, { picks = [] }] of sequences.entries())
      for (const [at, { row, experts }] of picks.entries()) {
        if (!experts) continue;
        const place = {
          row: row === undefined ? offsets[i + 1]! - 1 : offsets[i]! + row,
          tokens: tokens.length,
        };
        answers[i]!.picked[at]!.experts = tokenExperts(result, place, forecast, moeLayers);
      }
  }

  runAll(
    stack: number,
    sequences: readonly PassSequence[],
    forecast: PassForecast,
    take: (index: number, answer: PassAnswer) => void,
  ): void {
    let token = 0;
    for (let begin = 0; begin < sequences.length; ) {
      const end = this.#passEnd(sequences, begin);
      const pass = sequences.slice(begin, end);
      const tokens = pass.reduce((sum, sequence) => sum + sequence.tokens.length, 0);
      const answers = this.run(stack, pass, partOf(forecast, token, tokens));
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

function routed(batch: NativeBatch, { predicted, routingK }: PassForecast): NativeBatch {
  if (routingK === 0) return batch;
  if (predicted === null) throw cannotRoute();
  return { ...batch, routing: routingOf(predicted, routingK) };
}
