/** Thread entry: runs the builder loop until the process ends. */
import type { PredictorInfo } from '../protocol/engine-messages.js';
import type { ModelShape } from '../native/addon-types.js';
import { runHashBuilder } from './hash-builder.js';
import type { HashFunctionName } from './hash-function.js';
import type { QueueEnd } from '../protocol/hash-table-queue.js';

export interface HashBuilderThreadData {
  queue: QueueEnd;
  /** Doorbell: rung behind every batch posted, as the thread does not sleep on its port. */
  work: SharedArrayBuffer;
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

export type FromHashBuilder =
  | { type: 'opened'; predictor: PredictorInfo }
  | { type: 'warning'; message: string };

await runHashBuilder();
