/**
 * The native engine. Across this boundary an expert has a flat id: layer * experts + index, where layer counts MoE
 * layers over all stacks, first stack first.
 */
import type { ModelShape, PackFormats } from './pack-types.js';

/** The settings that determine the size of the workspace, the KV cache and the dense weights. */
export interface BatchLimits {
  /** Tokens of one pass, all sequences together. */
  maxBatchTokens: number;
  /** Tokens in the KV cache, for all live sequences together. */
  kvTokens: number;
  /** Compute threads. Each has its own scratch space. */
  threads: number;
  /** Most experts that a batch's `routing` may name for a token in one layer, 1 to 64; default the model's own k. */
  maxRoutingK?: number;
  /** Whether the model's routers are on the device; default true. Without them, every batch must have a `routing`. */
  routers?: boolean;
  /**
   * Type of activations in products; default f32. Each row is rounded at run time: with int8 where weights are
   * quantized, with bf16 where they are bf16. Other weights are multiplied with f32. Needs the cpu device, but for f32.
   */
  activations?: Activations;
  /** The device that holds the weights and computes; default cpu. */
  device?: DeviceName;
  /** Type of cached keys, values and latent rows; default f32. q8_0: cpu device, and heads of 32 · n columns. */
  kv?: KvType;
  /** Sequences for which layers with a window keep pages, beside the tokens of the largest pass; default 1. */
  kvWindows?: number;
  /** Sequences that may have a recurrent state at a time; default 4. */
  kvStates?: number;
  /** Whether a GPU may run passes without the host; default true. */
  devicePasses?: boolean;
  /** Whether a GPU also runs the predictor's networks, for which it sets memory aside; default false. */
  devicePredictor?: boolean;
}

export const ACTIVATIONS = ['f32', 'bf16', 'int8'] as const;
export type Activations = (typeof ACTIVATIONS)[number];
export const KV_TYPES = ['f32', 'bf16', 'q8_0'] as const;
export type KvType = (typeof KV_TYPES)[number];

export const DEVICES = ['cpu', 'cuda'] as const;
export type DeviceName = (typeof DEVICES)[number];

/** How the bytes of the device are used. All figures are bytes, except `experts`. */
export interface MemoryPlan {
  /** What the driver of a GPU takes: the process's context, page tables of page-locked memory, and unfilled pages. */
  driver: number;
  dense: number;
  /** 0 when the routers are not on the device. */
  routers: number;
  kvCache: number;
  workspace: number;
  /** Of the host budget, to compute experts with the CPU; 0 where the CPU computes none. */
  hostWorkspace: number;
  /** One expert's slot, which has room for the largest. */
  slot: number;
  /** The largest expert in the host's memory, whose pages may be smaller than the device's. */
  block: number;
  /** What one expert of each MoE layer has in the pack. */
  blockBytes: number[];
  /** Number of experts of each MoE layer. */
  layerExperts: number[];
  /** Number of experts in all layers of the model. */
  experts: number;
  /** driver + dense + routers + kvCache + workspace. */
  fixed: number;
  /** fixed + one slot. */
  smallest: number;
  /** fixed + a slot for every expert. */
  resident: number;
  /** A slot for every expert. */
  expertBytes: number;
  /** Bytes of dense weights and routers that one token reads. It reads one row of an embedding that is no head. */
  tokenDense: number;
  /** Bytes of the experts that one token needs: MoE layers · top-k slots. */
  tokenDemand: number;
  /**
   * The smallest budget at which an LRU cache holds one token's demand. Below it, the cache never hits for a lone
   * generation.
   */
  recencyFloor: number;
  /** The model's own context. Null when its config has none. */
  contextTokens: number | null;
}

/** Which experts are evicted first, by their values. */
export const EVICTION_POLICIES = ['farthest-next-use', 'lru', 'lfu', 'fifo', 'expert-buffering'] as const;
export type EvictionPolicyName = (typeof EVICTION_POLICIES)[number];

export interface PeerAddress {
  /** Name or number. */
  host: string;
  port: number;
}

/** A server's connection to a peer. Counts since the engine started. */
export interface PeerLink {
  address: string;
  connected: boolean;
  /** Why it is not connected, or was not the last time. Empty when it always was. */
  error: string;
  /** Experts that it holds. */
  held: number;
  requests: number;
  /** Experts that it computed. */
  experts: number;
  /** Requests without an answer; their experts were loaded. */
  failures: number;
  sentBytes: number;
  receivedBytes: number;
  /** As measured when it was connected. */
  roundTripSeconds: number;
  bytesPerSecond: number;
}

export interface EngineOptions extends BatchLimits {
  /** Directory of a packed model, which holds manifest.json. */
  pack: string;
  /** Hard limit of device bytes. */
  budgetBytes: number;
  /** Bytes of the host tier; 0 turns it off. */
  hostBudgetBytes: number;
  /** Whether the CPU computes some of the experts that the host tier has and the cuda device lacks; default true. */
  cpuExperts?: boolean;
  /** Of a simulated link, in bytes per second; 0 is off. */
  linkBandwidth: number;
  /** Of a simulated link, in seconds. */
  linkLatency: number;
  /** Reads in flight on each expert file. 0 (default) measures how many saturate its disk, in about 40 ms. */
  readDepth?: number;
  /**
   * The largest read or copy from the host tier in bytes, a multiple of 4096. 0 (default) chooses about a millisecond
   * at the measured rate.
   */
  readChunkBytes?: number;
  /** Which experts are evicted; default farthest-next-use. */
  policy?: EvictionPolicyName;
  /** Expert peers, which compute experts that are not on the device; default none. Needs the cpu device. */
  expertPeers?: readonly PeerAddress[];
  /** What the peers must have, too. */
  peerKey?: string;
  peerIdentity?: string;
}

/**
 * Routing of a pass in predicted mode. A table replaces the model's routers: token t of a layer becomes
 * Σ alpha_j · E_j(x_t) over its entries. An expert's capacity is counted per sequence over the entries in token
 * order, then entry order. An entry over the capacity adds nothing. With k = 1 and the routers' own choices and
 * probabilities, the results are bit for bit those of a pass without `routing`.
 */
export interface NativeRouting {
  /**
   * Expert indices within the layer, NO_EXPERT for none; (MoE layers of the stack, tokens, k). A token may not name
   * an expert twice in a layer. An entry whose alpha is 0 still runs its expert and uses its capacity.
   */
  experts: Uint16Array;
  /** Finite top-k weights; (MoE layers of the stack, tokens, k). */
  alpha: Float32Array;
  /** Entries per token and layer, from 1 to the engine's `maxRoutingK`. */
  k: number;
}

/** The id that means no parent. */
export const NO_PARENT = -1;

/** Tokens that the engine picks, each after a row of the pass. All arrays are (picks). */
export interface NativePicks {
  /** Rows of the pass, ascending. A row may repeat, for several samples. */
  rows: Int32Array;
  /** When absent, the most likely token is picked, the lowest id on ties. */
  sampling?: {
    /** 0 picks the most likely token, whatever the other settings are. */
    temperature: Float32Array;
    topP: Float32Array;
    minP: Float32Array;
    /** 0 keeps all tokens. */
    topK: Int32Array;
    seed: BigUint64Array;
    /** Position of the picked token in its sequence, which is the counter of its random number. */
    position: Float64Array;
  };
  /** Number of most likely tokens to return with each pick. None when absent. */
  top?: Int32Array;
  /** What changes the logits that tokens are picked from, not the log-probabilities. Nothing when absent. */
  adjustments?: NativeAdjustments;
  /**
   * The tokens that may be picked; all when absent. `rows` gives each pick's row of `bitmaps`, or −1 for all tokens.
   * `bitmaps` is (bitmaps, ceil(vocab / 32)): bit t % 32 of word t / 32 stands for token t.
   */
  allowed?: { rows: Int32Array; bitmaps: Uint32Array };
}

/** Penalties and biases of picks. A pick's tokens lie between the end of the pick before and its own. */
export interface NativeAdjustments {
  /** Taken from the logit of each generated token; (picks). */
  presence: Float64Array;
  /** Taken from it once for each time that the token was generated; (picks). */
  frequency: Float64Array;
  /** Above 0: positive logits of seen tokens are divided by it, the others multiplied; (picks). */
  repetition: Float64Array;
  /** Different tokens of each sequence, and how often each was generated: 0 if only the prompt has it. */
  seen: Int32Array;
  generated: Uint32Array;
  /** (picks). */
  seenEnds: Uint32Array;
  /** Tokens with a bias of each pick, and what is added to their logits. */
  biased: Int32Array;
  biases: Float64Array;
  /** (picks). */
  biasedEnds: Uint32Array;
}

/**
 * One native pass over a ragged batch: any mix of prompt chunks and single tokens of one stack. `tokens` holds the
 * tokens of all sequences in turn. The pass appends them to their sequences.
 */
export interface NativeBatch {
  /** Index in `shape.stacks`. */
  stack: number;
  /** Ids that the caller chooses, unique among live sequences of all stacks; (S). A new id begins a sequence. */
  sequences: Int32Array;
  /**
   * Parents of new sequences, or NO_PARENT; (S). Ignored for existing sequences. A sequence cross-attends to a parent
   * of the previous stack. It continues a parent of the same stack after its last token, and they share KV pages
   * until one of them writes.
   */
  parents?: Int32Array;
  /** (S + 1), first 0, last the token count. */
  offsets: Int32Array;
  /** (tokens). */
  tokens: Int32Array;
  /** Only for the last stack, as for everything that needs logits. */
  picks?: NativePicks;
  /** Requests the log-probability of a token after a row of the pass; both (queries), rows ascending. */
  queries?: { rows: Int32Array; tokens: Int32Array };
  /** Rows whose complete logits are returned, ascending. For tests and evaluation, never while serving. */
  logitRows?: Int32Array;
  /** Also return the final hidden states (tokens, width). */
  hiddenStates?: boolean;
  /** Also return router logits (MoE layers of the stack, tokens, experts). Not with `routing`. */
  routerLogits?: boolean;
  /** Routes all tokens. The model's routers are then not evaluated. */
  routing?: NativeRouting;
  /**
   * MoE layers after the running one whose routers name experts ahead, which are prefetched while the link idles; 0 by
   * default. Not with `routing`, nor in passes of more than 64 tokens. Results stay the same.
   */
  routeAhead?: number;
  /** Each MoE layer loads all its experts, as a system that streams whole layers does. Results stay the same. */
  wholeLayers?: boolean;
}

/** How a layer found an expert that it needed. An index is the value of an EXPERT_* constant. */
export const FOUND = ['unused', 'resident', 'prefetched', 'late', 'on_demand', 'peer', 'cpu'] as const;
export const EXPERT_UNUSED = 0;
export const EXPERT_RESIDENT = 1;
export const EXPERT_PREFETCHED = 2;
export const EXPERT_LATE = 3;
export const EXPERT_ON_DEMAND = 4;
export const EXPERT_PEER = 5;
export const EXPERT_CPU = 6;

export interface RunStats {
  needed: number;
  resident: number;
  prefetched: number;
  late: number;
  onDemand: number;
  /** Asked of a peer, which answered. */
  peer: number;
  /** Computed by the CPU of a server with a GPU. */
  cpu: number;
  prefetchesBegun: number;
  /** Of those, prefetches for what routers named ahead. */
  prefetchesForeseen: number;
  /** Prefetches that were cancelled before their transfer began. */
  prefetchesCancelled: number;
  /** Prefetched experts that were evicted before they were needed. */
  prefetchesWasted: number;
  /** Bytes transferred to the device. */
  bytesMoved: number;
  /** Time that the pass waited for experts, and of it for answers of peers. */
  stallNs: number;
  peerWaitNs: number;
  /** Reads that ended during the pass, and their bytes. A read may cover a part of an expert, or several experts. */
  diskReads: number;
  diskBytes: number;
  /** Demand loads that were read before the rest of a prefetch. */
  overtakes: number;
  /** Time of the whole native call. */
  passNs: number;
  /** 1 where the device ran the pass without the host, else 0. */
  devicePasses: number;
}

export interface RunResult {
  /**
   * The picked tokens and their log-probabilities; (picks). They are −1 − t and NaN when the logit of token t is
   * not finite.
   */
  picked?: Int32Array;
  pickedLogprobs?: Float64Array;
  /** The most likely tokens of each pick, pick by pick, most likely first; (sum of `top`). */
  topIds?: Int32Array;
  topLogprobs?: Float64Array;
  /** Results of `queries`; (queries). NaN when the row's logits are not all finite. */
  queryLogprobs?: Float64Array;
  /** (logitRows, vocab). */
  logits?: Float32Array;
  /** (tokens, width). */
  hiddenStates?: Float32Array;
  /** (layers, tokens, experts). */
  routerLogits?: Float32Array;
  /** MoE layers of the stack as flat layer numbers, in order; (layers). */
  layers: Int32Array;
  /**
   * The experts that ran for each token; (layers, tokens, topK), or (layers, tokens, k) with `routing`. NO_EXPERT for
   * a choice over the capacity, and for an entry of `routing` that names no expert.
   */
  dispatch: Uint16Array;
  /** The EXPERT_* value of each expert; (layers, experts). */
  found: Uint8Array;
  stats: RunStats;
}

/**
 * The prefetch and eviction plan of a pass. The expert with the largest key is evicted next, and the least recently
 * used one on ties.
 */
export interface ResidencyPlan {
  /** Key of each expert until the pass has needed it, by flat id. */
  keys: Float64Array;
  /** Key of each expert from then on, by flat id. */
  keysAfter: Float64Array;
  /** Key once the expert's layer has run without needing it; `keys` when absent. */
  keysUnneeded?: Float64Array;
  /**
   * Flat ids to prefetch, most urgent first. Each takes a free slot, or evicts an expert whose key is larger than its
   * own and not below `expendable`.
   */
  loads: Uint32Array;
  /**
   * A layer that needs an expert evicts one with a smaller key only when it cannot wait for a better victim. Keys
   * that are not smaller include this amount. The store subtracts it from the key of an expert that a prefetch loads.
   */
  expendable: number;
  /** On ties, evict the most recently used expert instead. */
  newestFirst: boolean;
  /**
   * Whether a layer waits for a better victim among its own experts, which it will release, even if the next one is
   * expendable, while enough loads of its own keep the disk busy; default false.
   */
  patient?: boolean;
  /** Least chance at which an expert that routers of later layers name is worth a slot; default 0.4. */
  leastForeseen?: number;
}

/** What a hash table tells of MoE layers that follow each other. */
export interface TableNeeds {
  /** Of the table: its chances are corrected by what passes needed, once while plans name it. */
  id: number;
  /** Flat number of the first MoE layer. */
  layer: number;
  /** (layers, the most experts of any layer of the model), chance that the layer needs the expert. */
  need: Float32Array;
}

/** What is known before a pass. The engine plans its loads and evictions by it, and learns from the pass. */
export interface PassNeeds {
  /** Of the pass's MoE layers, from its first one on. */
  own: readonly TableNeeds[];
  /** Of the later passes of its batch. */
  behind: readonly TableNeeds[];
  /** Of the batches in the queue, the next one first. */
  upcoming: readonly (readonly TableNeeds[])[];
  /** The pass runs without `own` and `behind`, and only learns from it. */
  control: boolean;
  /** Share of the time in which the link moves experts, from 0 to 1. */
  linkBusy: number;
  /** Visits of MoE layers that an expert stays on the device, about. Infinite without loads. */
  slotStay: number;
}

/** The index that means no expert. */
export const NO_EXPERT = 65535;

/** States of an expert in `Residency`, indexed by their values. A resident expert can compute. */
export const RESIDENCY_STATES = ['absent', 'loading', 'resident'] as const;
export type ResidencyState = (typeof RESIDENCY_STATES)[number];
export const ABSENT = 0;
export const LOADING = 1;
export const RESIDENT = 2;

/** Snapshot of every expert, indexed by flat id. */
export interface Residency {
  /** Index into RESIDENCY_STATES. */
  state: Uint8Array;
  pinned: Uint8Array;
  /** Number of times that a pass needed the expert. */
  uses: Float64Array;
  /** Tick of the last load; 0 is never. */
  loadedAt: Float64Array;
  /** Number of times that the expert's layer has run. */
  turns: Float64Array;
  /** Which of all `visits` was its layer's last one, from 1; 0 is none. */
  lastTurn: Float64Array;
  /** Share of its layer's turns that needed the expert, from 0 to 1, where recent ones weigh more (`use_rate.h`). */
  useRate: Float64Array;
  /** What the share would become if the next turn needed the expert, or did not. */
  useRateNeeded: Float64Array;
  useRateUnneeded: Float64Array;
  slots: number;
  freeSlots: number;
  /** Number of MoE layers that have run so far. */
  visits: number;
}

export interface DeviceUsage {
  budgetBytes: number;
  usedBytes: number;
  peakBytes: number;
  smallestBytes: number;
  slots: number;
  /** Pages of the tokens that all sequences together may have, and those of them that are free in all layers. */
  kvPages: number;
  kvPagesFree: number;
  /** Bytes of such a page in the layers that see all tokens; 0 if no layer does. */
  kvPageBytes: number;
  /**
   * Pages of the layers that see only the last `window` tokens; they give up what no later token sees. A window of 0:
   * of the recurrent layers, whose page is the state of one sequence.
   */
  kvWindows: { window: number; pages: number; pagesFree: number; pageBytes: number }[];
  host: { budgetBytes: number; usedBytes: number; experts: number };
  /** How the expert file is read. A rate of 0 was not measured. */
  disk: { direct: boolean; depth: number; chunkBytes: number; bytesPerSecond: number };
  peers: PeerLink[];
}

/** Not thread-safe: the same thread must open, use and close it. Calls block. */
export interface Engine {
  readonly shape: ModelShape;
  readonly plan: MemoryPlan;
  /** Element types of the pack. */
  readonly formats: PackFormats;
  /** Weight of the tables' forecast in plans, mean over layers: 1 trusts the tables, 0 ignores them. */
  readonly tableWeight: number;
  /**
   * Runs one pass. Throws invalid_request for a malformed batch and cannot_run when the KV cache is full. A batch
   * that fails leaves no sequences or tokens behind; its sequences with a recurrent state cannot go on. With needs the
   * engine plans by its policy. With a null plan, experts load on demand and the least recently used are evicted.
   */
  runBatch(batch: NativeBatch, plan: PassNeeds | ResidencyPlan | null): RunResult;
  /** Ends sequences and frees the pages that no other sequence uses. Unknown ids are ignored. */
  releaseSequences(ids: Int32Array): void;
  /**
   * Begins sequence `to` with the first `tokens` tokens of `from`, whose pages both own. Only of a decoder-only model.
   * Throws invalid_request where `from` does not have them, or gave up pages that the next token would see, or has a
   * recurrent state behind more tokens.
   */
  forkSequence(from: number, to: number, tokens: number): void;
  /** As forkSequence, without a recurrent state: `to` keeps the pages, so that other sequences may share them. */
  keepPages(from: number, to: number, tokens: number): void;
  /**
   * Frees the first pages of sequence `id` and gives it those of `from`. Both must hold the same `tokens` tokens, which
   * are whole pages.
   */
  sharePages(id: number, from: number, tokens: number): void;
  residency(): Residency;
  usage(): DeviceUsage;
  /** Blocks until the device holds at most `bytes`. Throws budget_too_small, without a change, below the smallest. */
  setBudget(bytes: number): void;
  /** Pins or unpins experts. A pinned expert is loaded at once and never evicted. */
  pin(ids: Uint32Array, pinned: boolean): void;
  /** Throws when an invariant of the expert store or of the KV cache is broken. */
  checkIntegrity(): void;
  close(): void;
}
