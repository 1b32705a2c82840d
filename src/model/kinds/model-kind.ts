/** How inputs become native passes. This differs between models with and without an encoder. */

import type { Generations } from '../../batching/generations.js';
import type { AdmittedItem, HeldBatch } from '../../batching/held-batch.js';
import type { HeldInputs } from '../../batching/held-inputs.js';
import type { Outcomes } from '../../batching/outcomes.js';
import type { PassAnswer, PassSequence } from '../../batching/pass-batch.js';
import type { Engine } from '../../native/addon-types.js';
import type { PassForecast } from '../../predictor/pass-forecast.js';

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

export interface KindOptions {
  engine: Engine;
  passes: PassRunner;
  /** Records how long passes over prompts take. */
  tableWait: { passTook(ms: number): void };
  generations: Generations;
  inputs: HeldInputs;
  outcomes: Outcomes;
}

export interface ModelKind {
  /** Whether to start inputs of another batch, after `batches` batches in this round. */
  takesMore(batches: number): boolean;
  /** Starts inputs of a batch. Their KV pages are already reserved. */
  start(items: readonly AdmittedItem[], batch: HeldBatch): void;
  /** Runs one round, in which every running generation takes a step. */
  step(): void;
  /** Drops the parts of the job that have not run. */
  dropJob(job: number): void;
}
