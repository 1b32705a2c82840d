/**
 * The only typed view of the native addon. Errors thrown by the addon carry `code` (see ../errors.ts) and
 * `details` with the numbers. An expert is named across this boundary by its flat id: layer * experts + index,
 * where layer counts MoE layers, encoder first.
 */

export type ExpertDtype = 'f32' | 'bf16';

export interface CpuFeatures {
  /** Instruction set the kernels use on this machine. */
  isa: 'avx512' | 'avx2' | 'scalar';
  avx2: boolean;
  fma: boolean;
  avx512: boolean;
  vnni: boolean;
  cores: number;
}

export interface CudaState {
  /** Whether the addon was built with CUDA. */
  compiled: boolean;
  devices: number;
  message: string;
}

/** Shape of a model, from its Hugging Face config. */
export interface ModelShape {
  modelType: 'switch_transformers';
  vocabSize: number;
  dModel: number;
  dKv: number;
  dFf: number;
  heads: number;
  encoderLayers: number;
  decoderLayers: number;
  experts: number;
  expertCapacity: number;
  /** MoE layers in flat order: `encoder.1`, `encoder.3`, …, `decoder.1`, … */
  moeLayers: string[];
  tiedHead: boolean;
  decoderStartTokenId: number;
  eosTokenId: number;
  padTokenId: number;
}

/** A checked Hugging Face checkpoint directory. */
export interface CheckpointInfo {
  shape: ModelShape;
  dtype: 'f32' | 'bf16' | 'f16' | 'mixed';
  /** Packed element types that lose nothing of this checkpoint. */
  lossless: { experts: ExpertDtype; dense: ExpertDtype };
  files: { name: string; bytes: number }[];
  tensors: number;
  bytes: number;
  /** sha256 over config.json and the safetensors headers: names the weights' identity without reading them. */
  fingerprint: string;
}

export interface PackOptions {
  checkpoint: string;
  /** Directory the packed files are written to; it exists. */
  out: string;
  experts: ExpertDtype;
  dense: ExpertDtype;
}

export interface DenseTensor {
  name: string;
  dtype: ExpertDtype;
  /** `rows`: as in the checkpoint; `panels`: 32-column panels, kernel-ready. */
  layout: 'rows' | 'panels';
  shape: number[];
  offset: number;
  bytes: number;
}

export interface PackLayout {
  experts: {
    dtype: ExpertDtype;
    file: string;
    /** Bytes of one expert, padded to 4 KiB. */
    block_bytes: number;
    /** Offset of each matrix inside a block. */
    wi_offset: number;
    wo_offset: number;
    layers: string[];
    experts_per_layer: number;
  };
  dense: { dtype: ExpertDtype; file: string; bytes: number; tensors: DenseTensor[] };
}

/** Writes a packed model file by file; each call does a bounded piece of work. */
export interface PackWriter {
  readonly layout: PackLayout;
  /** Writes the dense file whole. */
  writeDense(): void;
  /** Writes the blocks of flat expert ids [begin, end) at their place in the expert file. */
  writeExperts(begin: number, end: number): void;
  /** fsyncs and closes the files. */
  close(): void;
}

/** What sizes the workspace, the KV cache and the dense weights. */
export interface BatchLimits {
  /** Tokens of one pass, all sequences together. */
  maxBatchTokens: number;
  /** Tokens the KV cache holds: encoder tokens of live contexts plus decoder tokens of live sequences. */
  kvTokens: number;
  /** Compute threads; each has scratch space of its own. */
  threads: number;
  /** The most experts that a batch's `routing` may name for a token in one layer; 1 to 64, default 1. */
  maxRoutingK?: number;
  /** false leaves the model's routers off the device: every batch then brings its `routing`. Default true. */
  routers?: boolean;
}

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
}

/**
 * Predicted mode: a table routes a pass in place of the model's routers, token t of a layer through
 * Σ alpha_j · E_j(x_t) over its entries. An expert's capacity is counted per sequence over the entries in token
 * order, then entry order; an entry over it adds nothing. With k = 1 and the routers' own choice and probability the
 * answers are bit for bit those of a pass without `routing`.
 */
export interface NativeRouting {
  /**
   * Expert indices of each layer, 65535 for nobody; no expert twice for a token; (layers of the phase, tokens, k).
   * An entry whose alpha is 0 still runs its expert and takes from its capacity.
   */
  experts: Uint16Array;
  /** Finite; (layers of the phase, tokens, k). */
  alpha: Float32Array;
  /** 1 to the engine's `maxRoutingK`. */
  k: number;
}

/** One native step over a ragged batch. Sequences' tokens stand one after the other. */
export interface NativeBatch {
  /** encode: `sequences` are new contexts. decode: tokens are appended to each sequence's KV cache. */
  phase: 'encode' | 'decode';
  /** Ids chosen by the caller, unique among live contexts / sequences; (S). */
  sequences: Int32Array;
  /** decode only: the context each sequence attends to; (S). */
  contexts?: Int32Array;
  /** (S + 1), first 0, last the token count. */
  offsets: Int32Array;
  /** (tokens). */
  tokens: Int32Array;
  /** decode only: token positions whose logits are wanted, ascending; (rows). */
  logitRows?: Int32Array;
  /** Also return the final hidden states (tokens, d_model). */
  hiddenStates?: boolean;
  /** Also return router logits (layers of the phase, tokens, experts). Not with `routing`. */
  routerLogits?: boolean;
  /** Where all its tokens go; the model's routers are then not evaluated. */
  routing?: NativeRouting;
  /** Each MoE layer takes all its experts, as where whole layers are streamed; answers stay the same. */
  wholeLayers?: boolean;
}

/** How a layer found an expert that it needed. */
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
  /** Whole native call. */
  passNs: number;
}

export interface RunResult {
  /** (rows, vocab), when logitRows was given. */
  logits?: Float32Array;
  hiddenStates?: Float32Array;
  routerLogits?: Float32Array;
  /** MoE layers of the phase as flat layer numbers, in order; (layers). */
  layers: Int32Array;
  /**
   * Expert of each token, 65535 where over capacity; (layers, tokens). With `routing`: of each entry, 65535 also
   * where it names nobody; (layers, tokens, k).
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
  /** Flat ids to prefetch, most urgent first. Each takes a free slot or evicts an expert with a larger key than its own. */
  loads: Uint32Array;
  /** Ties: the most recently used goes first. */
  newestFirst: boolean;
}

/** Told the number of a MoE layer inside the pass and the expert of each token (65535 over capacity), before they are loaded. */
export type RoutedHook = (layer: number, experts: Uint16Array) => ResidencyPlan | null;

/** Snapshot of every expert, indexed by flat id. */
export interface Residency {
  /** 0 absent, 1 loading, 2 resident, 3 evicting. */
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
}

/** Not thread-safe: one thread opens, uses and closes it. Calls block. */
export interface Engine {
  readonly shape: ModelShape;
  readonly plan: MemoryPlan;
  readonly expertDtype: ExpertDtype;
  /**
   * Runs one step. Throws invalid_request for a malformed batch, before anything is changed. Without a plan experts
   * are fetched on demand and the least recently used go. The plan that `onRouted` returns takes its place for the
   * rest of the pass; it is not called where the batch brings its routing.
   */
  runBatch(batch: NativeBatch, plan: ResidencyPlan | null, onRouted?: RoutedHook): RunResult;
  /** Frees the KV pages of the named contexts or sequences; unknown ids are ignored. */
  releaseContexts(ids: Int32Array): void;
  releaseSequences(ids: Int32Array): void;
  residency(): Residency;
  usage(): DeviceUsage;
  /** Returns when the device holds at most `bytes`. Throws budget_too_small and changes nothing below the smallest. */
  setBudget(bytes: number): void;
  /** Pins or unpins experts; a pinned expert is loaded at once and never evicted. */
  pin(ids: Uint32Array, pinned: boolean): void;
  /** Throws when an invariant of the expert store is broken. */
  checkIntegrity(): void;
  close(): void;
}

/**
 * The token embedding of a model, (vocab, dModel), f32. Cheap to share between objects of one thread. Of a model
 * whose stacks have one each, the encoder's.
 */
export interface TokenEmbedding {
  readonly vocab: number;
  readonly dModel: number;
  /** Writes a safetensors file with one f32 tensor `embedding.weight`. */
  save(file: string): void;
}

export interface PredictorShape {
  dIn: number;
  hidden: number;
  layers: number;
  experts: number;
  /** A token sees itself and the tokens before it: the decoder's kind. */
  causal: boolean;
  /** Each LSTM layer runs in both directions (h/2 each, concatenated). Not with causal. */
  bidirectional: boolean;
  /** A position input is added in the compressing layer. */
  positions: boolean;
  /**
   * Residual attention blocks in the place of the LSTMs, 0 (default) to 4: `hidden` is then a multiple of 16 and
   * nothing is bidirectional.
   */
  blocks?: number;
  /** Takes a summary of the encoder's tokens (mean of their embeddings) beside each sequence. */
  summary: boolean;
}

/** Token sequences, one after the other. */
export interface PredictorInput {
  /** (tokens). */
  tokens: Int32Array;
  /** (S + 1), first 0, last the token count. */
  offsets: Int32Array;
  /** With `summary`: the encoder tokens behind each sequence; (context tokens), (S + 1). Ignored without. */
  contextTokens?: Int32Array;
  contextOffsets?: Int32Array;
}

/** Inference. Not thread-safe. Holds products of the embedding, not the embedding. */
export interface Predictor {
  readonly shape: PredictorShape;
  /** Memory held, scratch space and live sequences included. */
  readonly bytes: number;
  /**
   * Overwrites experts and alpha, (layers, tokens, k): the k most likely experts, best first, and the softmax, over
   * all experts of the layer, of the logits times its `alphaSharpness`. `chance`, optional and of the same shape: with
   * its `chanceSharpness`. False where a logit is not finite: the arrays then hold nothing of use.
   * `logits`, optional: (layers, tokens, experts).
   */
  predict(
    input: PredictorInput,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance?: Float32Array,
    logits?: Float32Array,
  ): boolean;
  /**
   * Causal only: begins sequences, whose ids the caller chooses, with the encoder tokens behind each. Throws
   * invalid_request for an id that lives.
   */
  begin(ids: Int32Array, contextTokens?: Int32Array, contextOffsets?: Int32Array): void;
  /**
   * One more token of each; experts, alpha and chance (layers, S, k) as in predict. After false the sequences are of
   * no more use.
   */
  step(
    ids: Int32Array,
    tokens: Int32Array,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance?: Float32Array,
  ): boolean;
  /** Forgets; unknown ids are ignored. */
  end(ids: Int32Array): void;
  close(): void;
}

export interface TrainerSettings {
  beta1: number;
  beta2: number;
  epsilon: number;
  weightDecay: number;
  /** Experts of the teacher that are distilled: its best so many. */
  top: number;
  /** The teacher's logits are multiplied by this before their softmax; default 1. */
  sharpness?: number;
  /** Weight of the cross-entropy beside the distillation. */
  lambda: number;
  /** Cross-entropy on the teacher's best k experts. */
  k: number;
  distillation: 'kl' | 'l1';
  /** The student's probabilities are normalized over the distilled experts alone. */
  studentOverTop: boolean;
  /** Largest norm of a step's gradient; 0: none. */
  clipNorm: number;
  threads: number;
}

export interface TrainingBatch extends PredictorInput {
  /** The teacher's best experts and their router logits, (layers, tokens, top), best first. */
  experts: Uint16Array;
  logits: Float32Array;
  top: number;
}

/** Losses are means over tokens and layers. */
export interface TrainingReport {
  loss: number;
  distillation: number;
  crossEntropy: number;
  /** Before clipping; 0 for an evaluation. */
  gradientNorm: number;
  /** False for an evaluation, and where loss or gradient is not finite: nothing was learnt. */
  applied: boolean;
  /** How often the teacher's best expert was among the student's best 1, 2, 3. */
  layers: { tokens: number; hits: [number, number, number] }[];
}

/** Not thread-safe. */
export interface PredictorTrainer {
  readonly shape: PredictorShape;
  /** Optimizer steps done. */
  readonly steps: number;
  step(batch: TrainingBatch, learningRate: number): TrainingReport;
  evaluate(batch: TrainingBatch): TrainingReport;
  /** The directory exists. A crash leaves the predictor of before or the new one. */
  save(directory: string, withOptimizer: boolean): void;
  close(): void;
}

export interface NativeAddon {
  version: string;
  cpuFeatures(): CpuFeatures;
  cuda(): CudaState;
  /** Opens and checks a checkpoint: every header, every tensor's name and shape. */
  inspectCheckpoint(directory: string): CheckpointInfo;
  /** Of a pack as it is, or of a checkpoint packed with these element types (default: the lossless ones). */
  planMemory(
    source: { pack: string } | { checkpoint: string; experts?: ExpertDtype; dense?: ExpertDtype },
    limits: BatchLimits,
  ): MemoryPlan;
  /** Tokens in one page of the KV cache. */
  kvPageTokens: number;
  /** Measures sequential O_DIRECT reads of a file, bytes per second. */
  measureDiskRead(file: string, bytes: number): number;
  PackWriter: new (options: PackOptions) => PackWriter;
  Engine: new (options: EngineOptions) => Engine;
  /** From a packed model, a checkpoint, or what `save` wrote. */
  TokenEmbedding: new (
    source: { pack: string } | { checkpoint: string } | { file: string },
  ) => TokenEmbedding;
  /**
   * Opens a directory that a trainer saved. Throws checkpoint_invalid where it is damaged, not finite or of
   * another model. `threads`: 1 runs on the calling thread. The sharpness of each layer is above 0, 1 where not given.
   */
  Predictor: new (options: {
    directory: string;
    embedding: TokenEmbedding;
    threads: number;
    alphaSharpness?: Float32Array;
    chanceSharpness?: Float32Array;
  }) => Predictor;
  /** `directory`: goes on from what a trainer saved there. */
  PredictorTrainer: new (
    options: { embedding: TokenEmbedding; settings: TrainerSettings } & (
      | { shape: PredictorShape; seed: number }
      | { directory: string }
    ),
  ) => PredictorTrainer;
}
