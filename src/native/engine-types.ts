/**
 * The native engine. An expert is named across this boundary by its flat id: layer * experts + index, where layer
 * counts MoE layers over all stacks, first stack first.
 */
import type { ModelShape, PackFormats } from './pack-types.js';

/** What sizes the workspace, the KV cache and the dense weights. */
export interface BatchLimits {
  /** Tokens of one pass, all sequences together. */
  maxBatchTokens: number;
  /** Tokens the KV cache holds: those of all live sequences. */
  kvTokens: number;
  /** Compute threads; each has scratch space of its own. */
  threads: number;
  /** The most experts that a batch's `routing` may name for a token in one layer; 1 to 64, default the model's own. */
  maxRoutingK?: number;
  /** false leaves the model's routers off the device: every batch then brings its `routing`. Default true. */
  routers?: boolean;
  /**
   * Type of the activations that are multiplied with int8 and int4 weights: f32 (default), or int8, each row rounded as
   * it comes, which is faster and less exact. Other weights are always multiplied with f32.
   */
  activations?: Activations;
  /** What holds the weights and computes; default cpu. */
  device?: DeviceName;
}

export type Activations = 'f32' | 'int8';

export const DEVICES = ['cpu', 'cuda'] as const;
export type DeviceName = (typeof DEVICES)[number];

/** Where each byte of the device goes. All figures in bytes. */
export interface MemoryPlan {
  dense: number;
  /** 0 where they are left off the device. */
  routers: number;
  kvCache: number;
  workspace: number;
  /** One expert's slot. */
  slot: number;
  /** Experts of the model, all layers. */
  experts: number;
  /** dense + routers + kvCache + workspace. */
  fixed: number;
  /** fixed + one slot. */
  smallest: number;
  /** fixed + a slot for every expert. */
  resident: number;
  /** Bytes of all experts. */
  expertBytes: number;
  /** Bytes of the experts that one token needs: MoE layers · top-k slots. */
  tokenDemand: number;
  /**
   * Below it a cache that keeps the most recent experts holds no token's demand, so that a lone generation never
   * hits.
   */
  recencyFloor: number;
}

export interface EngineOptions extends BatchLimits {
  /** Packed model directory (manifest.json inside). */
  pack: string;
  /** Hard limit of device bytes. */
  budgetBytes: number;
  /** Host tier's bytes; 0 turns it off. */
  hostBudgetBytes: number;
  /** Simulated link, bytes per second and seconds; 0 is off. */
  linkBandwidth: number;
  linkLatency: number;
  /** Reads in flight on each file of experts; 0 (default) measures what fills its disk, in about 40 ms. */
  readDepth?: number;
  /**
   * The longest read or copy from the host tier, a multiple of 4096; 0 (default): about a millisecond of the measured
   * rate.
   */
  readChunkBytes?: number;
}

/**
 * Predicted mode: a table routes a pass in place of the model's routers, token t of a layer through
 * Σ alpha_j · E_j(x_t) over its entries. An expert's capacity is counted per sequence over the entries in token
 * order, then entry order; an entry over it adds nothing. With k = 1 and the routers' own choice and probability the
 * answers are bit for bit those of a pass without `routing`.
 */
export interface NativeRouting {
  /**
   * Expert indices of each layer, NO_EXPERT for none; no expert twice for a token; (MoE layers of the stack,
   * tokens, k). An entry whose alpha is 0 still runs its expert and takes from its capacity.
   */
  experts: Uint16Array;
  /** Finite; (MoE layers of the stack, tokens, k). */
  alpha: Float32Array;
  /** 1 to the engine's `maxRoutingK`. */
  k: number;
}

/** Stands for no parent. */
export const NO_PARENT = -1;

/** Tokens to pick natively, each after a row of the pass. Arrays of one length, (picks). */
export interface NativePicks {
  /** Rows of the pass, ascending; one may stand twice (several samples of one row). */
  rows: Int32Array;
  /** Absent: the most likely token, the lowest id on ties. */
  sampling?: {
    /** 0: the most likely token, whatever else is asked. */
    temperature: Float32Array;
    topP: Float32Array;
    minP: Float32Array;
    /** 0: all. */
    topK: Int32Array;
    seed: BigUint64Array;
    /** Of the picked token in its sequence: the counter of its random number. */
    position: Float64Array;
  };
  /** Most likely tokens to name beside each; absent: none. */
  top?: Int32Array;
}

/**
 * One native pass over a ragged batch: any mix of chunks of prompts and single tokens of one stack. Sequences' tokens
 * stand one after the other and are appended to what the sequence has.
 */
export interface NativeBatch {
  /** Index in `shape.stacks`. */
  stack: number;
  /** Ids chosen by the caller, unique among live sequences of all stacks; one that is new begins here; (S). */
  sequences: Int32Array;
  /**
   * Looked at where a sequence is new; NO_PARENT where it has none; (S). A parent of the stack before: attended across
   * to. A parent of this stack: continued from its last token on, its pages shared until one of both writes to them.
   */
  parents?: Int32Array;
  /** (S + 1), first 0, last the token count. */
  offsets: Int32Array;
  /** (tokens). */
  tokens: Int32Array;
  /** Last stack only, as all that follows from logits. */
  picks?: NativePicks;
  /** Log-probabilities wanted of given tokens after rows of the pass, rows ascending. */
  queries?: { rows: Int32Array; tokens: Int32Array };
  /** Rows whose logits are wanted whole, ascending: for tests and evaluation, never while serving. */
  logitRows?: Int32Array;
  /** Also return the final hidden states (tokens, width). */
  hiddenStates?: boolean;
  /** Also return router logits (MoE layers of the stack, tokens, experts). Not with `routing`. */
  routerLogits?: boolean;
  /** Where all its tokens go; the model's routers are then not evaluated. */
  routing?: NativeRouting;
  /** Each MoE layer takes all its experts, as where whole layers are streamed; answers stay the same. */
  wholeLayers?: boolean;
}

/** How a layer found an expert that it needed, in the order of their numbers. */
export const FOUND = ['unused', 'resident', 'prefetched', 'late', 'on_demand'] as const;
export const EXPERT_UNUSED = 0;
export const EXPERT_RESIDENT = 1;
export const EXPERT_PREFETCHED = 2;
export const EXPERT_LATE = 3;
export const EXPERT_ON_DEMAND = 4;

export interface RunStats {
  needed: number;
  resident: number;
  prefetched: number;
  late: number;
  onDemand: number;
  prefetchesBegun: number;
  /** Taken back before their transfer began. */
  prefetchesCancelled: number;
  /** Evicted before they were needed. */
  prefetchesWasted: number;
  /** Bytes moved into the device. */
  bytesMoved: number;
  /** Time the pass waited for experts. */
  stallNs: number;
  /** Reads that ended during the pass, of parts of an expert or of several, and their bytes. */
  diskReads: number;
  diskBytes: number;
  /** Demands that were read before the rest of a prefetch. */
  overtakes: number;
  /** Whole native call. */
  passNs: number;
}

export interface RunResult {
  /**
   * Of `picks`: the tokens and their log-probabilities, (picks). −1 − t and NaN where the logit of token t is not
   * finite.
   */
  picked?: Int32Array;
  pickedLogprobs?: Float64Array;
  /** The most likely tokens of each pick, pick by pick, most likely first; (sum of `top`). */
  topIds?: Int32Array;
  topLogprobs?: Float64Array;
  /** Of `queries`, (queries); NaN where the row's logits are not all finite. */
  queryLogprobs?: Float64Array;
  /** (logitRows, vocab). */
  logits?: Float32Array;
  hiddenStates?: Float32Array;
  routerLogits?: Float32Array;
  /** MoE layers of the stack as flat layer numbers, in order; (layers). */
  layers: Int32Array;
  /**
   * Experts of each token, NO_EXPERT where over capacity; (layers, tokens, topK). With `routing`: of each
   * entry, NO_EXPERT also where it names none; (layers, tokens, k).
   */
  dispatch: Uint16Array;
  /** EXPERT_* of each expert; (layers, experts). */
  found: Uint8Array;
  stats: RunStats;
}

/** What to move during a pass. The expert with the largest key is the next victim; ties: the least recently used. */
export interface ResidencyPlan {
  /** By flat id: counts until the pass needs the expert. */
  keys: Float64Array;
  /** Counts from then on. */
  keysAfter: Float64Array;
  /**
   * Flat ids to prefetch, most urgent first. Each takes a free slot or evicts an expert with a larger key than its own,
   * which is not below `expendable`.
   */
  loads: Uint32Array;
  /**
   * A layer that needs an expert evicts one below this only when it cannot wait for a better one. A part of the
   * keys above it: an expert that a prefetch brings back counts without it.
   */
  expendable: number;
  /** Ties: the most recently used goes first. */
  newestFirst: boolean;
}

/** In place of an index: no expert. */
export const NO_EXPERT = 65535;

/** States of `Residency`, in the order of their numbers. Computing may begin once an expert is resident. */
export const RESIDENCY_STATES = ['absent', 'loading', 'resident'] as const;
export type ResidencyState = (typeof RESIDENCY_STATES)[number];
export const ABSENT = 0;
export const LOADING = 1;
export const RESIDENT = 2;

/** Snapshot of every expert, indexed by flat id. */
export interface Residency {
  /** Indices into RESIDENCY_STATES. */
  state: Uint8Array;
  pinned: Uint8Array;
  /** Times a pass needed the expert. */
  uses: Float64Array;
  /** Tick of the last use and of the last load; 0 is never. */
  lastUse: Float64Array;
  loadedAt: Float64Array;
  slots: number;
  freeSlots: number;
  /** Turns of MoE layers so far. */
  visits: number;
}

export interface DeviceUsage {
  budgetBytes: number;
  usedBytes: number;
  peakBytes: number;
  smallestBytes: number;
  slots: number;
  kvPages: number;
  kvPagesFree: number;
  host: { budgetBytes: number; usedBytes: number; experts: number };
  /** How each file of experts is read; a rate of 0 was not measured. */
  disk: { direct: boolean; depth: number; chunkBytes: number; bytesPerSecond: number }[];
}

/** Not thread-safe: one thread opens, uses and closes it. Calls block. */
export interface Engine {
  readonly shape: ModelShape;
  readonly plan: MemoryPlan;
  /** Element types of the pack. */
  readonly formats: PackFormats;
  /**
   * Runs one pass. Throws invalid_request for a malformed batch, before anything is changed; cannot_run when the KV
   * cache is full: after any error the batch has left nothing behind. Without a plan experts are fetched on demand and
   * the least recently used go.
   */
  runBatch(batch: NativeBatch, plan: ResidencyPlan | null): RunResult;
  /** Ends sequences: their pages go where no other sequence owns them. Unknown ids are ignored. */
  releaseSequences(ids: Int32Array): void;
  residency(): Residency;
  usage(): DeviceUsage;
  /** Returns when the device holds at most `bytes`. Throws budget_too_small and changes nothing below the smallest. */
  setBudget(bytes: number): void;
  /** Pins or unpins experts; a pinned expert is loaded at once and never evicted. */
  pin(ids: Uint32Array, pinned: boolean): void;
  /** Throws when an invariant of the expert store or of the KV cache is broken. */
  checkIntegrity(): void;
  close(): void;
}
