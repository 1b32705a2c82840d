/** Which predictor works, and what the hash-building thread is told and tells. */
import type { ModelShape } from '../native/addon-types.js';
import type { QueueEnd } from './hash-table-queue.js';

export type HashFunctionName = 'lstm' | 'token' | 'replay' | 'shuffled';

export interface PredictorChoice {
  /** Made by `sida train`, or a trace for `replay`. */
  directory: string;
  /** Undefined: the best that the directory holds. */
  kind?: HashFunctionName;
}

export interface PredictorInfo {
  /** The hash function at work; null: experts are fetched on demand. */
  name: HashFunctionName | null;
  /** What is wrong with it, or why there is none. */
  warnings: string[];
}

export interface HashBuilderThreadData {
  queue: QueueEnd;
  /** WakeUp: signalled after every batch posted, as the thread does not sleep on its port. */
  work: SharedArrayBuffer;
  /** Null: the thread hands batches on without tables. */
  predictor: PredictorChoice | null;
  model: ModelShape;
  fingerprint: string;
  /** Packed model directory: its token embedding is the predictor's input. */
  pack: string;
  /** BuilderStats and ResidentFlag. */
  stats: SharedArrayBuffer;
  resident: SharedArrayBuffer;
}

export type FromHashBuilder =
  | { type: 'opened'; predictor: PredictorInfo }
  | { type: 'warning'; message: string };
