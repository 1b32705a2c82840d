/** The native engine's steps with their accounts: passes counted, costs booked, errors turned into failed jobs. */

import { SidaError } from '../errors.js';
import type { Engine, NativeBatch, RunResult } from '../native/addon-types.js';
import { profiled } from '../profile/thread-events.js';
import type { InferenceCounters } from './counters.js';
import { type Foreknowledge, routingOf } from './foreknowledge.js';
import type { Foresight } from './foresight.js';
import type { JobLedger } from './job-ledger.js';
import type { RoutingQuality } from './routing-quality.js';

/** One decoder sequence of a step. */
export interface DecodeSequence {
  job: number;
  sequence: number;
  context: number;
  /** Appended to its KV cache. */
  tokens: readonly number[];
  /** Positions in `tokens` whose logits are wanted, ascending. */
  rows: readonly number[];
}

export interface NativeStepsOptions {
  engine: Engine;
  foresight: Foresight;
  quality: RoutingQuality;
  ledger: JobLedger;
  counters: InferenceCounters;
  maxBatchTokens: number;
  /** Called when a step failed, once for each job that took part. */
  onJobError: (job: number, error: SidaError) => void;
}

/** Rows of logits one step returns: bounds the logits held at a time, a large vocabulary makes them large. */
export const MAX_LOGIT_ROWS = 64;

export class NativeSteps {
  readonly #options: NativeStepsOptions;
  #nextId = 0;

  constructor(options: NativeStepsOptions) {
    this.#options = options;
  }

  /** An id unused among live contexts and sequences. */
  newId(): number {
    this.#nextId = (this.#nextId + 1) & 0x7fffffff;
    return this.#nextId;
  }

  /** Creates the contexts; false when the step failed and its jobs with it. */
  encode(
    contexts: readonly number[],
    jobs: readonly number[],
    offsets: Int32Array,
    tokens: Int32Array,
    known: Foreknowledge,
  ): boolean {
    const batch: NativeBatch = { phase: 'encode', sequences: Int32Array.from(contexts), offsets, tokens };
    return this.#run(batch, jobs, known) !== undefined;
  }

  /**
   * Runs the sequences in as few steps as the limits allow and hands each its rows of logits, (vocab) each. A
   * sequence whose step failed is left out, its job has failed. `known` has the sequences' tokens in order.
   */
  decode(
    sequences: readonly DecodeSequence[],
    known: Foreknowledge,
    take: (index: number, rows: Float32Array[]) => void,
  ): void {
    let token = 0;
    for (let begin = 0; begin < sequences.length; ) {
      const end = this.#chunkEnd(sequences, begin);
      const chunk = sequences.slice(begin, end);
      const tokens = chunk.reduce((sum, sequence) => sum + sequence.tokens.length, 0);
      const { predicted } = known;
      const rows = predicted && { ...predicted, rows: predicted.rows.subarray(token, token + tokens) };
      token += tokens;
      this.#decodeChunk(chunk, { ...known, predicted: rows }, (i, logits) => take(begin + i, logits));
      begin = end;
    }
  }

  #chunkEnd(sequences: readonly DecodeSequence[], begin: number): number {
    let tokens = 0;
    let rows = 0;
    let end = begin;
    for (; end < sequences.length; end++) {
      tokens += sequences[end]!.tokens.length;
      rows += sequences[end]!.rows.length;
      if (end > begin && (tokens > this.#options.maxBatchTokens || rows > MAX_LOGIT_ROWS)) break;
    }
    return end;
  }

  #decodeChunk(
    chunk: DecodeSequence[],
    known: Foreknowledge,
    take: (index: number, rows: Float32Array[]) => void,
  ): void {
    const offsets = new Int32Array(chunk.length + 1);
    chunk.forEach(({ tokens }, i) => {
      offsets[i + 1] = offsets[i]! + tokens.length;
    });
    const batch: NativeBatch = {
      phase: 'decode',
      sequences: Int32Array.from(chunk, ({ sequence }) => sequence),
      contexts: Int32Array.from(chunk, ({ context }) => context),
      offsets,
      tokens: Int32Array.from(chunk.flatMap(({ tokens }) => tokens)),
      logitRows: Int32Array.from(chunk.flatMap(({ rows }, i) => rows.map((row) => offsets[i]! + row))),
    };
    const result = this.#run(
      batch,
      chunk.map(({ job }) => job),
      known,
    );
    if (result === undefined) return;
    const vocab = this.#options.engine.shape.vocabSize;
    let row = 0;
    chunk.forEach(({ rows }, i) => {
      const views = rows.map((_, j) => result.logits!.subarray((row + j) * vocab, (row + j + 1) * vocab));
      row += rows.length;
      profiled('sample', () => take(i, views));
    });
  }

  #run(batch: NativeBatch, jobs: readonly number[], known: Foreknowledge): RunResult | undefined {
    const { engine, foresight, quality, ledger, counters, onJobError } = this.#options;
    try {
      const plan = profiled('plan', () => foresight.plan(known));
      const result = engine.runBatch(routed(batch, known), plan);
      foresight.judge(result, known.own);
      counters.addPass(result.stats, batch.tokens.length);
      profiled('account', () =>
        ledger.add(result, jobs, batch.offsets, quality.judge(result, jobs, batch, known)),
      );
      return result;
    } catch (cause) {
      const error = SidaError.from(cause);
      // A broken invariant or device leaves an engine nobody should be served from: the process ends and is replaced.
      if (error.code === 'internal' || error.code === 'device_failed') throw error;
      for (const job of new Set(jobs)) onJobError(job, error);
      return undefined;
    }
  }
}

function routed(batch: NativeBatch, { predicted, routingK }: Foreknowledge): NativeBatch {
  if (routingK === 0) return batch;
  if (predicted === null) {
    throw new SidaError({
      code: 'cannot_run',
      message: 'The predictor cannot name the experts of this input, and nothing else routes it',
    });
  }
  return { ...batch, routing: routingOf(predicted, routingK) };
}
