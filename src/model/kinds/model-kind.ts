/** How inputs become native passes: what differs between models with an encoder and those without. */
import type { Foresight } from '../../inference/pass-planner.js';
import type { Generations } from '../../batching/generations.js';
import type { AdmittedItem, HeldBatch } from '../../batching/held-batch.js';
import type { HeldInputs } from '../../batching/held-inputs.js';
import type { NativeSteps } from '../../inference/native-steps.js';
import type { Outcomes } from '../../batching/outcomes.js';
import type { TableWait } from '../../inference/table-wait.js';
import type { Engine } from '../../native/addon-types.js';

export interface KindOptions {
  engine: Engine;
  steps: NativeSteps;
  foresight: Foresight;
  tableWait: TableWait;
  generations: Generations;
  inputs: HeldInputs;
  outcomes: Outcomes;
}

export interface ModelKind {
  /** Whether to start inputs of another batch, after `batches` in this round. */
  takesMore(batches: number): boolean;
  /** Takes up inputs of a batch, which have their pages. */
  start(items: readonly AdmittedItem[], batch: HeldBatch): void;
  /** One round: every running generation takes a step. */
  step(): void;
  /** Forgets what has not run of the job. */
  dropJob(job: number): void;
}
