/** Every message between the API process and the engine process, in one place. */
import type { FormatChoices } from '../checkpoint/weight-format.js';
import type { ErrorBody } from '../errors.js';
import type {
  Activations,
  DeviceName,
  DeviceUsage,
  MemoryPlan,
  ModelShape,
  PackFormats,
  ResidencyState,
} from '../native/addon-types.js';
import type { TraceAbout } from '../profile/chrome-trace.js';
import type { BuilderFigures } from './builder-stats.js';
import type { PassCounters } from './pass-counters.js';
import type { HashFunctionName, PredictorInfo } from './predictor-messages.js';
import type { ThreadCounters } from './thread-counters.js';

/** What the engine process needs to start. */
export interface EngineConfig extends FormatChoices {
  /** Hugging Face checkpoint directory or packed model directory. */
  model: string;
  /** Where automatic conversion puts its packs. */
  packDir: string;
  /** Read every weight at the start and refuse one that is NaN or infinite. */
  checkTensors: boolean;
  /** As the user wrote it (`2GiB`, `50%`): a share is resolved once the model is known. */
  memoryBudget: string;
  hostBudget: string;
  device: DeviceName;
  threads: number;
  /** What meets quantized weights. */
  activations: Activations;
  policy: EvictionPolicyName;
  /** `auto`: the model's own where it has one; `none`; or a directory. */
  predictor: string;
  /** `auto`: the best that the directory holds. */
  hashFunction: HashFunctionName | 'auto';
  /** `predicted` leaves the routers off the device. */
  routing: RoutingMode;
  /**
   * Most experts that tables may route a token to, and their number where a request names none; null: the model's
   * top-k.
   */
  routingK: number | null;
  lookahead: number;
  maxBatchTokens: number;
  /** Tokens in the KV cache. */
  kvTokens: number;
  batchWaitMs: number;
  /** Longest text taken, in bytes, before it is tokenized. */
  maxInputBytes: number;
  linkBandwidth: number;
  linkLatencyMs: number;
  /** On each file of experts; 0 measures it. */
  readDepth: number;
}

export const EVICTION_POLICY_NAMES = [
  'farthest-next-use',
  'lru',
  'fifo',
  'lfu',
  'lifo',
  'expert-buffering',
] as const;
export type EvictionPolicyName = (typeof EVICTION_POLICY_NAMES)[number];

/** What the model serves; sent once it is open. */
export interface ModelInfo {
  name: string;
  /** Identity of the weights. */
  fingerprint: string;
  shape: ModelShape;
  formats: PackFormats;
  tasks: Record<string, { template: string; labels: string[] }>;
  hasTokenizer: boolean;
  plan: MemoryPlan;
  usage: DeviceUsage;
  predictor: PredictorInfo;
}

/** What an answer cost in experts. `loaded` counts experts that were not resident when first needed. */
export interface ExpertCost {
  needed: number;
  resident: number;
  prefetched: number;
  late: number;
  on_demand: number;
  loaded: number;
  /** Bytes moved for this request's experts; an expert shared with another request of the batch counts for both. */
  bytes: number;
  stall_ms: number;
  /** Routings, a token to one of its experts in a MoE layer, that a table spoke of. */
  predicted: number;
  /**
   * Of them, those whose expert was the table's first name, or among its first three; of models that choose one
   * expert.
   */
  hits_top1?: number;
  hits_top3?: number;
  /** Among its first k names, or its first 2k; of models that choose k > 1 experts. */
  hits_top_k?: number;
  hits_top_2k?: number;
  /** Bytes that Belady's rule with the same look-ahead would have moved; counted when the job asks for its cost. */
  belady_bytes: number;
}

/** Null: as the server was started. */
export interface RoutingWish {
  mode: RoutingMode | null;
  /** Experts for each token, where tables route. */
  k: number | null;
}

/** Who sends tokens to experts: the model's routers, or hash tables. */
export type RoutingMode = 'exact' | 'predicted';

/** How tokens are drawn. */
export interface SamplingWish {
  /** Above 0. */
  temperature: number;
  topP: number;
  /** 0: all. */
  topK: number;
  minP: number;
  /** Of the first choice of each prompt; `choiceSeed` says which the others have. */
  seed: number;
}

/** A job of one task. `src/tasks` says what the jobs of each kind hold beside this. */
export interface JobRequest {
  kind: string;
  /** The answer tells all that it cost. */
  explain?: boolean;
  routing?: RoutingWish;
  /** Its deltas are sent as they arise. */
  stream?: boolean;
}

/** What a request asked its answer to show. Each task has fields of its own. */
export type AnswerForm = Record<string, unknown>;

export interface TokenLogprobs {
  id: number;
  token: string;
  /** Characters of its choice's text that were certain before this token. */
  offset: number;
  logprob: number;
  top: { id: number; token: string; logprob: number }[];
}

export interface JobTiming {
  tokenizeMs: number;
  queueMs: number;
  inferenceMs: number;
}

/** The result of a job. `src/tasks` says what the results of each kind hold beside this. */
export interface JobResult {
  kind: string;
  promptTokens: number;
  completionTokens: number;
  experts: ExpertCost;
  timing: JobTiming;
}

/**
 * What one or more new tokens add to a generated text; more than one where a stream's reader was behind. `text` is what
 * became certain with these tokens and may be empty.
 */
export interface CompletionDelta {
  /** All choices of the first prompt come first. */
  index: number;
  text: string;
  tokenIds: number[];
  logprobs: TokenLogprobs[] | null;
  finishReason: 'stop' | 'length' | null;
}

/** What the inference thread answers. */
export type ModelRequest =
  | { kind: 'usage' }
  | { kind: 'experts' }
  /** Answers when the new budget holds. */
  | { kind: 'set-budget'; device: string };

/** What the main thread answers. */
export type ProfileRequest =
  /** `bytes`: most memory that the recording takes. Fails with cannot_run while another runs. */
  | { kind: 'start-profile'; bytes: number }
  /** Answers when the file is written; null: what was recorded is thrown away. */
  | { kind: 'stop-profile'; file: string | null };

export type ControlRequest = ModelRequest | ProfileRequest;

export interface ExpertState {
  index: number;
  state: ResidencyState;
  pinned: boolean;
  uses: number;
}

export type ControlReply =
  | { kind: 'usage'; usage: DeviceUsage }
  | { kind: 'experts'; layers: { layer: string; experts: ExpertState[] }[] }
  | { kind: 'set-budget'; usage: DeviceUsage }
  | { kind: 'start-profile' }
  | { kind: 'stop-profile'; written: TraceAbout | null };

/** Counters since the engine process started; sent about once a second and after every batch while busy. */
export interface EngineCounters extends PassCounters, ThreadCounters {
  /** Routings that tables spoke of, and those among their first names: see `recallWidths`. */
  routingsPredicted: number;
  routingHitsNarrow: number;
  routingHitsWide: number;
  /** Weight of the tables' forecast when passes are planned: 1 trusts them, 0 ignores them, below 0 inverts them. */
  tableWeight: number;
  /** Bytes Belady's rule would have moved; lags by the look-ahead. */
  beladyBytes: number;
  tables: BuilderFigures;
  /** Batches waiting between the hash-building and the inference thread. */
  tablesQueued: number;
  activeSequences: number;
  rssBytes: number;
  usage: DeviceUsage;
}

export type ToEngine =
  | { type: 'job'; id: string; request: JobRequest }
  | { type: 'cancel'; id: string }
  /** `deltas` more deltas of a stream were taken: as many may follow. */
  | { type: 'taken'; id: string; deltas: number }
  | { type: 'control'; id: number; request: ControlRequest }
  /** Finish nothing more, close the model and exit 0. */
  | { type: 'close' };

export type FromEngine =
  /** Long work before the engine is ready: conversion, loading. */
  | { type: 'progress'; phase: 'convert' | 'hash' | 'load'; done: number; total: number }
  | { type: 'ready'; model: ModelInfo }
  /** The model cannot be served; the process exits after this. */
  | { type: 'failed'; error: ErrorBody }
  /**
   * The pieces of one decode step, all jobs together: a message for each would keep this process from hearing a
   * cancel.
   */
  | { type: 'deltas'; deltas: { id: string; delta: CompletionDelta }[] }
  | { type: 'result'; id: string; result: JobResult }
  | { type: 'error'; id: string; error: ErrorBody }
  | { type: 'control-reply'; id: number; reply: ControlReply }
  | { type: 'control-error'; id: number; error: ErrorBody }
  | { type: 'counters'; counters: EngineCounters }
  /** Sent every second by the main thread, which never computes. */
  | { type: 'alive' };
