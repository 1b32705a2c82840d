/** Every message to and from the inference thread. Jobs and items are numbered by the engine's main thread. */

import type { ErrorBody } from '../errors.js';
import type { DeviceUsage, MemoryPlan, ModelShape, PackFormats } from '../native/addon-types.js';
import type {
  ControlReply,
  EngineConfig,
  EngineCounters,
  ExpertCost,
  ModelRequest,
} from './engine-messages.js';
import type { QueueEnd } from './hash-table-queue.js';
import type { ItemWork } from './item-work.js';
import type { PredictorChoice } from './predictor-messages.js';
import type { RankedToken } from './sampling.js';

/** One input of a job: its prompt stands in the batch. */
export interface BatchItem {
  item: number;
  job: number;
  /** Items of the job, in this batch and in others. */
  jobItems: number;
  /** The job's answer reports its cost in experts. */
  explain?: boolean;
  work: ItemWork;
}

/** Inputs that are taken up together. The arrays lie in shared memory. */
export interface PromptBatch {
  /** Ascending by 1. */
  id: number;
  /** Experts that tables route each token to; 0: the model's routers do. */
  routingK: number;
  items: BatchItem[];
  /** (items + 1), first 0, last the token count. */
  offsets: Int32Array;
  /** (tokens), all items one after the other. */
  tokens: Int32Array;
}

/**
 * The hash tables of a batch, by stack; null where no token of the stack is known beforehand. Of an encoder-decoder
 * model: its prompts, and the tokens that labels feed. Of a decoder-only one: a table of the prompts, then of the
 * tokens that labels feed, input by input.
 */
export type BatchTables = (SharedArrayBuffer | null)[];

/** What travels through the hash table queue. */
export interface QueuedBatch {
  batch: PromptBatch;
  /** May still be pending; null: this batch is not predicted. */
  tables: BatchTables | null;
}

export interface InferenceThreadData {
  config: EngineConfig;
  /** Packed model directory. */
  pack: string;
  queue: QueueEnd;
  fingerprint: string;
  /** Predicts the experts of generations; null: they are not predicted. */
  predictor: PredictorChoice | null;
  /** BuilderStats and ResidentFlag of the predictor. */
  builderStats: SharedArrayBuffer;
  resident: SharedArrayBuffer;
  /** StepBacklog. */
  backlog: SharedArrayBuffer;
}

export type ToInference =
  /** Drops every item of the job, in batches up to `lastBatch`, the last that holds any. */
  | { type: 'cancel'; job: number; lastBatch: number }
  /** Ends a choice early; the `done` of its item still comes. */
  | { type: 'stop'; item: number; choice: number }
  | { type: 'control'; id: number; request: ModelRequest }
  | { type: 'close' };

export interface GeneratedToken {
  item: number;
  /** Of the item's choices. */
  choice: number;
  id: number;
  /** Present when asked for. */
  logprobs?: { logprob: number; top: RankedToken[] };
}

/** What a whole job took; times from the shared monotonic clock, in milliseconds. */
export interface JobEnd {
  cost: ExpertCost;
  startedMs: number;
  endedMs: number;
}

export type FromInference =
  | {
      type: 'opened';
      shape: ModelShape;
      formats: PackFormats;
      plan: MemoryPlan;
      usage: DeviceUsage;
      kvPageTokens: number;
    }
  /** The model could not be opened. */
  | { type: 'failed'; error: ErrorBody }
  /** What one round gave, all running generations together. */
  | { type: 'tokens'; tokens: GeneratedToken[] }
  /** `scores`: summed log-probability of each label. `end` comes with the last item of the job. */
  | { type: 'done'; item: number; job: number; scores?: number[]; end?: JobEnd }
  | { type: 'job-error'; job: number; error: ErrorBody }
  | { type: 'control-reply'; id: number; reply: ControlReply }
  | { type: 'control-error'; id: number; error: ErrorBody }
  | { type: 'counters'; counters: EngineCounters }
  | { type: 'closed' };
