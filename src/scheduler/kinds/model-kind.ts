/** How requests become native passes. This differs between models with and without an encoder. */

import type { Engine } from '../../native/addon-types.js';
import type { Matchers } from '../../structured-output/matchers.js';
import type { Generations } from '../generations.js';
import type { PassRunner } from '../passes.js';
import type { Outcomes, Request } from '../request.js';
import type { RunningRequests } from '../running-requests.js';

export interface KindOptions {
  engine: Engine;
  passes: PassRunner;
  /** Records how long passes over prompts take. */
  tableWait: { passTook(ms: number): void };
  generations: Generations;
  matchers: Matchers;
  running: RunningRequests;
  outcomes: Outcomes;
  /** The request gave its pages away, and waits for its next turn. */
  onSuspend: (request: Request) => void;
}

export interface ModelKind {
  /** Whether to start more requests, after so many starts in this round. */
  takesMore(starts: number): boolean;
  /** Starts requests of one batch, or lets one go on that gave way. They have their KV pages. */
  start(requests: readonly Request[]): void;
  /** Runs one round, in which every running generation takes a step. */
  step(): void;
  /** Lets a request of a key with several give way. Returns false if there is none. */
  makeWay(): boolean;
  /** Ends a generation early whose tokens have not all run. Does nothing if there is none of the item. */
  stop(item: number): void;
  /** Drops the parts of the job that have not run. */
  dropJob(job: number): void;
}
