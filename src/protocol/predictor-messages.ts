/** The choice of a predictor, and the messages of the hash-building thread. */
import type { DeviceName, ModelShape, PredictorInput } from '../native/addon-types.js';
import type { BatchTables } from './hash-table.js';

/** The kinds of predictor network: LSTM layers, or residual attention blocks. */
export const NETWORK_NAMES = ['lstm', 'attention'] as const;
export type NetworkName = (typeof NETWORK_NAMES)[number];

export type HashFunctionName = NetworkName | 'token';

export interface PredictorChoice {
  /** A directory made by `sida train`. */
  directory: string;
  /** Default: the kind that the directory's manifest names. */
  kind?: HashFunctionName;
}

export interface ChosenPredictor {
  /** The active hash function. Null if there is none, so that experts are fetched on demand. */
  name: string | null;
  /** Problems of the predictor, or the reasons why there is none. */
  warnings: string[];
}

export interface PredictorInfo extends ChosenPredictor {
  /** Hash of its files where tables route and so decide answers; else null. */
  fingerprint: string | null;
}

export interface HashBuilderThreadData {
  /** Buffer of the inference thread's WakeUp, which may be waiting for a table. */
  arrivals: SharedArrayBuffer;
  /** Buffer of a WakeUp that is signalled after every posted batch, because the thread does not sleep on its port. */
  work: SharedArrayBuffer;
  predictor: PredictorChoice;
  model: ModelShape;
  /** Identity of the model's weights. */
  weights: string;
  /** Packed model directory. Its token embedding is the input of the predictor. */
  pack: string;
  /** What runs the networks, and the threads of a CPU. */
  device: DeviceName;
  threads: number;
  /** Buffer of BuilderStats. */
  stats: SharedArrayBuffer;
}

/** For each stack: the tokens known before the batch runs, or null if there are none. */
export type StackInputs = readonly (PredictorInput | null)[];

export interface BatchInput {
  id: number;
  /** Experts per token if the tables route; such tables are never skipped or abandoned. 0 if the routers do. */
  routingK: number;
  inputs: StackInputs;
}

export interface ToHashBuilder {
  batch: BatchInput;
  tables: BatchTables;
}

export type FromHashBuilder =
  | { type: 'opened'; predictor: ChosenPredictor }
  | { type: 'warning'; message: string };
