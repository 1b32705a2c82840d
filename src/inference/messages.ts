/** Every message to and from the inference thread. Jobs and items are numbered by the engine's main thread. */
import type {
  ControlReply,
  EngineConfig,
  EngineCounters,
  ExpertCost,
  ModelRequest,
} from '../engine/messages.js';
import type { ErrorBody } from '../errors.js';
import type { DeviceUsage, MemoryPlan, ModelShape, PackFormats } from '../native/addon-types.js';
import type { PredictorChoice } from '../predictor/hash-builder-thread.js';
import type { QueueEnd } from '../predictor/hash-table-queue.js';
import type { RankedToken } from './sampler.js';
import type { ScoringPlan } from './scoring.js';

export type ItemWork =
  | { kind: 'score'; plan: ScoringPlan }
  /** `logprobs`: most likely tokens to name for each generated one; null for none. */
  | { kind: 'generate'; maxTokens: number; logprobs: number | null };

/** One input of a job: a sequence of an encoder batch and what follows it. */
export interface BatchItem {
  item: number;
  job: number;
  /** Items of the job, in this batch and in others. */
  jobItems: number;
  /** The job's answer tells all that it cost. */
  explain?: boolean;
  work: ItemWork;
}

/** Inputs that are encoded together. The arrays lie in shared memory. */
export interface EncodeBatch {
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

/** The hash tables of a batch: of its encoder pass, and of the decoder pass over its labels where it has any. */
export interface BatchTables {
  encoder: SharedArrayBuffer;
  decoder: SharedArrayBuffer | null;
}

/** What travels through the hash table queue. */
export interface QueuedBatch {
  batch: EncodeBatch;
  /** May still be pending; null: nobody predicts this batch. */
  tables: BatchTables | null;
}

export interface InferenceThreadData {
  config: EngineConfig;
  /** Packed model directory. */
  pack: string;
  queue: QueueEnd;
  fingerprint: string;
  /** Names the experts of generations, and refines tables; null: nobody does. */
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
  /** Ends a generation early; its `done` still comes. */
  | { type: 'stop'; item: number }
  | { type: 'control'; id: number; request: ModelRequest }
  | { type: 'close' };

export interface GeneratedToken {
  item: number;
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
  /** What one decode step gave, all running generations together. */
  | { type: 'tokens'; tokens: GeneratedToken[] }
  /** `scores`: summed log-probability of each label. `end` comes with the last item of the job. */
  | { type: 'done'; item: number; job: number; scores?: number[]; end?: JobEnd }
  | { type: 'job-error'; job: number; error: ErrorBody }
  | { type: 'control-reply'; id: number; reply: ControlReply }
  | { type: 'control-error'; id: number; error: ErrorBody }
  | { type: 'counters'; counters: EngineCounters }
  | { type: 'closed' };
