/** Thread entry: runs the builder loop until the process ends. */
import { Batcher, type BatcherOptions, type PendingItem } from '../engine/batcher.js';
import type { PredictorInfo } from '../engine/messages.js';
import type { ModelShape } from '../native/addon-types.js';
import { runHashBuilder } from './hash-builder.js';
import type { HashFunctionName } from './hash-function.js';
import type { QueueEnd } from './hash-table-queue.js';

export interface HashBuilderThreadData {
  queue: QueueEnd;
  batching: BatcherOptions;
  /** What predicts; null: nobody. */
  predictor: PredictorChoice | null;
  model: ModelShape;
  fingerprint: string;
  /** Packed model directory: its token embedding is the predictor's input. */
  pack: string;
  /** BuilderStats and ResidentFlag. */
  stats: SharedArrayBuffer;
  resident: SharedArrayBuffer;
}

export interface PredictorChoice {
  /** Made by `sida train`, or a trace for `replay`. */
  directory: string;
  /** Undefined: the best that the directory holds. */
  kind?: HashFunctionName;
}

/** To be followed by a ring of the queue's departures: the thread sleeps on them, not on its port. */
export type ToHashBuilder =
  | { type: 'add'; items: PendingItem[] }
  /** Takes out what waits of the job; `cancelled` answers. */
  | { type: 'cancel'; job: number };

export type FromHashBuilder =
  | { type: 'opened'; predictor: PredictorInfo }
  /** No batch after `lastBatch` has items of the job. */
  | { type: 'cancelled'; job: number; lastBatch: number }
  | { type: 'warning'; message: string };

await runHashBuilder((options) => new Batcher(options));
