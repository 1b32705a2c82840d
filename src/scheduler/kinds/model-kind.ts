/** How inputs become native passes. This differs between models with and without an encoder. */

import type { Engine } from '../../native/addon-types.js';
import type { Matchers } from '../../structure/matchers.js';
import type { Generations } from '../generations.js';
import type { AdmittedItem, HeldBatch } from '../held-batch.js';
import type { HeldInputs } from '../held-inputs.js';
import type { Outcomes } from '../outcomes.js';
import type { PassRunner } from '../passes.js';

export interface KindOptions {
  engine: Engine;
  passes: PassRunner;
  /** Records how long passes over prompts take. */
  tableWait: { passTook(ms: number): void };
  generations: Generations;
  matchers: Matchers;
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
  /** Owners of inputs that gave way, the owner of the oldest first. No new input of an owner may pass these. */
  readonly suspendedOwners: Iterable<string>;
  /** Resumes the oldest input of the owner that gave way. Returns false if its pages are not available. */
  resume(owner: string): boolean;
  /** Lets an input of an owner with several give way. Returns false if there is none. */
  makeWay(): boolean;
  /** Ends a generation early that does not run at present. Does nothing if there is none of the item. */
  stop(item: number): void;
  /** Drops the parts of the job that have not run. */
  dropJob(job: number): void;
}
