/**
 * The only typed view of the native addon. Errors from the addon carry `code` (see ../errors.ts), and `details` with
 * the numbers.
 */
import type {
  BatchLimits,
  DeviceName,
  Engine,
  EngineOptions,
  EVICTION_POLICIES,
  FOUND,
  MemoryPlan,
  RESIDENCY_STATES,
} from './engine-types.js';
import type { GgufInfo } from './gguf-types.js';
import type {
  CheckpointInfo,
  ModelShape,
  PackFormats,
  PackLayout,
  PackOptions,
  PackVerifier,
  PackWriter,
} from './pack-types.js';
import type { ExpertPeer, ExpertPeerOptions } from './peer-types.js';
import type {
  Predictor,
  PredictorShape,
  PredictorTrainer,
  TokenEmbedding,
  TrainerSettings,
} from './predictor-types.js';
import type { Recorder } from './profile-types.js';
import type { WeightlessStore, WeightlessStoreOptions } from './store-types.js';

export * from './engine-types.js';
export type * from './gguf-types.js';
export type * from './pack-types.js';
export type * from './peer-types.js';
export type * from './predictor-types.js';
export type * from './profile-types.js';
export type * from './store-types.js';

/** Instruction sets that have kernels, the widest first. */
export const ISAS = ['avx512amx', 'avx512vnni', 'avx512', 'avx2', 'scalar'] as const;
export type Isa = (typeof ISAS)[number];

export interface CpuFeatures {
  /** The instruction set that the kernels use on this machine. */
  isa: Isa;
  avx2: boolean;
  fma: boolean;
  avx512: boolean;
  vnni: boolean;
  cores: number;
}

export interface CudaState {
  /** Whether the addon was built with CUDA. */
  compiled: boolean;
  /** Whether this is a build for tests, in which the CPU emulates a GPU. */
  emulated: boolean;
  devices: number;
  /** Why there is no device. Empty when there is one. */
  message: string;
  /** The first device. Absent when there is none. */
  device?: {
    name: string;
    capability: string;
    /** Version. Empty where NVML does not tell it. */
    driver: string;
    totalBytes: number;
    /** With what this process's context takes. */
    freeBytes: number;
    /** Of the process's context, with the kernels. */
    contextBytes: number;
    /** Whether the driver told it. Otherwise it is the usual size. */
    contextMeasured: boolean;
    /** Bytes per second of copies from page-locked memory. Absent where it was not measured. */
    copyRate?: number;
  };
}

export interface NativeAddon {
  version: string;
  /** The values of enumerations. test/native/contract.test.ts compares them with the types here. */
  names: {
    isa: typeof ISAS;
    residency: typeof RESIDENCY_STATES;
    found: typeof FOUND;
    policies: typeof EVICTION_POLICIES;
  };
  /** The value of NO_EXPERT. */
  noExpert: number;
  profile: Recorder;
  cpuFeatures(): CpuFeatures;
  /** Makes a context on the GPU, for as long as the process lives. Measures copies for `copySeconds`, by default 0. */
  cuda(copySeconds?: number): CudaState;
  /**
   * Opens a checkpoint directory or a GGUF file, and checks every header and every tensor's name and shape. Throws
   * checkpoint_invalid.
   */
  inspectCheckpoint(model: string): CheckpointInfo;
  /** Reads what a GGUF file says beside its weights. Throws checkpoint_invalid. */
  readGguf(file: string): GgufInfo;
  /** The layout of a pack of the model whose config.json lies in the directory `config`. Reads no weights. */
  describePack(options: { config: string } & PackFormats): PackLayout & { shape: ModelShape };
  /**
   * Reads experts [begin, end) of a pack, and the dense weights too when `begin` is 0. Throws pack_invalid, which
   * names the first weight that is NaN or infinite. Returns the number of experts of the pack.
   */
  checkFinite(pack: string, begin: number, end: number): number;
  /** Plans for a pack, or for a checkpoint packed with these element types (default: the lossless ones). */
  planMemory(
    source: { pack: string } | ({ checkpoint: string } & Partial<PackFormats>),
    limits: BatchLimits,
  ): MemoryPlan;
  /**
   * Measures the bytes of experts per second that the CPU multiplies by the activations of one token, for experts in
   * memory. Allocates at most 256 MiB. 0 for a model without experts. Blocks for about half a second.
   */
  measureWeightSpeed(
    source: { pack: string } | ({ checkpoint: string } & Partial<PackFormats>),
    limits: BatchLimits,
  ): number;
  /** Tokens in one page of the KV cache. */
  kvPageTokens: number;
  /**
   * Measures O_DIRECT reads of `readBytes`, a multiple of 4096, spread over a file, with a growing number in flight.
   * `depth` is the smallest number that almost saturates the disk. `bytesPerSecond` is its rate, and `best` is the
   * best rate of all numbers.
   */
  measureDiskSpeed(
    file: string,
    readBytes: number,
    seconds: number,
  ): { depth: number; bytesPerSecond: number; best: number };
  /**
   * Locks an open file by flock(2), exclusively or shared, unless another open file of it holds a lock that forbids it.
   * Returns whether it is locked. The kernel releases the lock when the file is closed, also when the process dies.
   */
  tryLock(fd: number, shared: boolean): boolean;
  PackWriter: new (options: PackOptions) => PackWriter;
  PackVerifier: new (options: { checkpoint: string; pack: string }) => PackVerifier;
  Engine: new (options: EngineOptions) => Engine;
  /**
   * Opens a share of a pack's experts and listens. Throws budget_too_small with the bytes needed, and cannot_run when
   * the address cannot be had.
   */
  ExpertPeer: new (
    options: ExpertPeerOptions,
  ) => ExpertPeer;
  WeightlessStore: new (options: WeightlessStoreOptions) => WeightlessStore;
  /** Opens the embedding of a packed model, of a checkpoint, or of a file that `save` wrote. */
  TokenEmbedding: new (
    source: { pack: string } | { checkpoint: string } | { file: string },
  ) => TokenEmbedding;
  /**
   * Opens a directory that a trainer saved. Throws checkpoint_invalid when it is damaged, not finite, or of another
   * model. With one thread, the predictor runs on the calling thread. On cuda, whose networks have LSTMs and take at
   * most 32 MiB, `predict` uses the GPU. Both kinds of sharpness are (layers), above 0, and 1 by default.
   */
  Predictor: new (options: {
    directory: string;
    embedding: TokenEmbedding;
    threads: number;
    device?: DeviceName;
    alphaSharpness?: Float32Array;
    chanceSharpness?: Float32Array;
    /** Experts that a router chooses for a token. The softmax is multiplied by this to get a chance; default 1. */
    choices?: number;
    /** (layers), those that each layer of the model has, the first of the predictor's; default all. */
    layerExperts?: Uint16Array;
  }) => Predictor;
  /** With `directory`, continues from what a trainer saved there. */
  PredictorTrainer: new (
    options: { embedding: TokenEmbedding; settings: TrainerSettings } & (
      | { shape: PredictorShape; seed: number }
      | { directory: string }
    ),
  ) => PredictorTrainer;
}
