/** How inputs become native passes: what differs between models with an encoder and those without. */

import type { Generations } from '../../batching/generations.js';
import type { AdmittedItem, HeldBatch } from '../../batching/held-batch.js';
import type { HeldInputs } from '../../batching/held-inputs.js';
import type { Outcomes } from '../../batching/outcomes.js';
import type { PassAnswer, PassSequence } from '../../batching/pass-batch.js';
import type { Engine } from '../../native/addon-types.js';
import type { PassForecast } from '../../predictor/pass-forecast.js';

/** Runs native passes and accounts for them. */
export interface PassRunner {
  /** Of one pass. */
  readonly maxBatchTokens: number;
  /** An id unused among live sequences. */
  newId(): number;
  /** One pass; null when it failed and its jobs with it. `forecast` has the sequences' tokens in order. */
  run(stack: number, sequences: readonly PassSequence[], forecast: PassForecast): PassAnswer[] | null;
  /**
   * Runs the sequences in as few passes as their tokens allow and hands each its answer. A sequence whose pass failed
   * is left out; its job has failed.
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
  /** Learns how long passes over prompts take. */
  tableWait: { passTook(ms: number): void };
  generations: Generations;
  inputs: HeldInputs;
  outcomes: Outcomes;
}

export interface ModelKind {
  /** Whether to start inputs of another batch, after `batches` in this round. */
  takesMore(batches: number): boolean;
  /** Starts inputs of a batch; their KV pages are reserved. */
  start(items: readonly AdmittedItem[], batch: HeldBatch): void;
  /** One round: every running generation takes a step. */
  step(): void;
  /** Forgets the job's parts that have not run. */
  dropJob(job: number): void;
}
