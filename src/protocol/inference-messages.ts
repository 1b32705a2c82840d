/** All messages to and from the inference thread. The engine's main thread numbers jobs and items. */

import type { MessagePort } from 'node:worker_threads';
import type { SizedConfig } from '../config/engine-config.js';
import type { ErrorBody } from '../errors.js';
import type { DeviceUsage, MemoryPlan, ModelShape, PackFormats } from '../native/addon-types.js';
import type { QueueEnd } from './batch-queue.js';
import type { ControlReply, InferenceFigures, ModelRequest } from './engine-messages.js';
import type { ExpertCost } from './expert-cost.js';
import type { ThreadLife } from './grammar-messages.js';
import type { BatchTables } from './hash-table.js';
import type { ItemWork } from './item-work.js';
import type { PredictorChoice } from './predictor-messages.js';
import type { PassRates } from './quote.js';
import type { RankedToken } from './sampling.js';

/** One input of a job, as the main thread has prepared it. */
export interface PreparedRequest {
  item: number;
  job: number;
  /** Number of the job's items in all batches. */
  jobItems: number;
  /** Experts per token if tables route the request; 0 if the model's routers do. Equal within a batch. */
  routingK: number;
  /** Requests of one scope may share kept KV pages; undefined if the request shares none. */
  prefixScope?: string;
  /** Names the key that sent the job; empty without keys. Keys take turns where KV pages are short. */
  owner: string;
  /** Of a key's jobs, the one that is due first goes first. Equal within a job. By the clock of `clockMs`. */
  dueMs: number;
  work: ItemWork;
  /** The prompt, in shared memory where the tokenizer thread made it. */
  tokens: Int32Array;
}

/** Requests that run as one batch. */
export interface PromptBatch {
  /** Ids ascend by 1. */
  id: number;
  /** Experts per token if tables route the batch; 0 if the model's routers do. */
  routingK: number;
  requests: PreparedRequest[];
}

/** An entry of the hash table queue. */
export interface QueuedBatch {
  batch: PromptBatch;
  /** Tables may still be pending. Null if the batch is not predicted. */
  tables: BatchTables | null;
}

export interface InferenceThreadData {
  config: SizedConfig;
  /** Packed model directory. */
  pack: string;
  queue: QueueEnd;
  /** Identity of the model's weights. */
  weights: string;
  /** What expert peers must have, too. */
  peerIdentity: string;
  /** The predictor of generations; null if they are not predicted. */
  predictor: PredictorChoice | null;
  /** Buffer of the predictor's BuilderStats. */
  builderStats: SharedArrayBuffer;
  /** Buffer of a SharedFlag: every expert has a slot, and no expert moves. No tables are built then. */
  resident: SharedArrayBuffer;
  /** Buffer of a StepBacklog. */
  backlog: SharedArrayBuffer;
}

export type ToInference =
  /** Drops every item of the job in batches up to `lastBatch`, the last batch that may hold any. */
  | { type: 'cancel'; job: number; lastBatch: number }
  /** Ends a choice early. The `done` message of its item still follows. */
  | { type: 'stop'; item: number; choice: number }
  /** A grammar thread has started, or was replaced. */
  | ({ type: 'grammar-thread'; port: MessagePort } & ThreadLife)
  | { type: 'control'; id: number; request: ModelRequest }
  | { type: 'close' };

export interface GeneratedToken {
  item: number;
  /** Index among the item's choices. */
  choice: number;
  id: number;
  /** Whether it is a token of the prompt, which a request asked the log-probabilities of. */
  ofPrompt?: true;
  /** Present if the request asked for it. */
  logprobs?: { logprob: number; top: RankedToken[] };
  /** Of the pass that picked it; present if the request asked for them. */
  experts?: LayerExperts[];
}

/** Experts of a token in a MoE layer, the best first. */
export interface LayerExperts {
  layer: string;
  chosen: number[];
  /** As many that the token's table named. Null without a table. */
  predicted: number[] | null;
}

/** Results of an item, besides its tokens. */
export interface ItemResults {
  /** Summed log-probability of each label. */
  scores?: number[];
  /** Tokens that all beams of a search were fed. */
  beamTokens?: number;
  /** Tokens of the prompt whose KV pages the prefix cache had. */
  cachedTokens?: number;
  /** Mean of the last hidden states. */
  embedding?: number[];
}

/** The cost and times of a whole job. Times are milliseconds of the monotonic clock that all threads share. */
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
  /** The tokens of one round, for all running generations. A beam search sends its tokens when it ends. */
  | { type: 'tokens'; tokens: GeneratedToken[] }
  /** `end` is present with the last item of the job. */
  | ({ type: 'done'; item: number; job: number; end?: JobEnd } & ItemResults)
  | { type: 'job-error'; job: number; error: ErrorBody }
  /** A grammar thread does not answer. */
  | ({ type: 'grammar-stuck' } & ThreadLife)
  | { type: 'control-reply'; id: number; reply: ControlReply }
  | { type: 'control-error'; id: number; error: ErrorBody }
  | { type: 'counters'; counters: InferenceFigures; rates: PassRates }
  | { type: 'closed' };
