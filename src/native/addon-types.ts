/**
 * The only typed view of the native addon. Errors thrown by the addon carry `code` (see ../errors.ts) and `details`
 * with the numbers.
 */
import type {
  BatchLimits,
  Engine,
  EngineOptions,
  FOUND,
  MemoryPlan,
  RESIDENCY_STATES,
} from './engine-types.js';
import type { CheckpointInfo, PackFormats, PackOptions, PackVerifier, PackWriter } from './pack-types.js';
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
export type * from './pack-types.js';
export type * from './predictor-types.js';
export type * from './profile-types.js';
export type * from './store-types.js';

/** Instruction sets that there are kernels for, the widest first. */
export const ISAS = ['avx512vnni', 'avx512', 'avx2', 'scalar'] as const;
export type Isa = (typeof ISAS)[number];

export interface CpuFeatures {
  /** The one that the kernels use on this machine. */
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
  /** The CPU stands in for the GPU: a build for tests. */
  emulated: boolean;
  devices: number;
  /** Why there is no device; empty where there is one. */
  message: string;
  /** Of the first device, where there is one. */
  device?: { name: string; capability: string; totalBytes: number; freeBytes: number };
}

export interface NativeAddon {
  version: string;
  /** The words of enumerations; test/native/contract.test.ts holds them against the types here. */
  names: {
    isa: typeof ISAS;
    residency: typeof RESIDENCY_STATES;
    found: typeof FOUND;
  };
  /** NO_EXPERT. */
  noExpert: number;
  profile: Recorder;
  cpuFeatures(): CpuFeatures;
  cuda(): CudaState;
  /** Opens and checks a checkpoint: every header, every tensor's name and shape. */
  inspectCheckpoint(directory: string): CheckpointInfo;
  /**
   * Reads experts [begin, end) of a pack, from 0 on the dense weights too. Throws pack_invalid naming the first
   * weight that is NaN or infinite. Gives the number of experts.
   */
  checkFinite(pack: string, begin: number, end: number): number;
  /** Of a pack as it is, or of a checkpoint packed with these element types (default: the lossless ones). */
  planMemory(
    source: { pack: string } | ({ checkpoint: string } & Partial<PackFormats>),
    limits: BatchLimits,
  ): MemoryPlan;
  /** Tokens in one page of the KV cache. */
  kvPageTokens: number;
  /** Measures sequential O_DIRECT reads of a file, bytes per second. */
  measureDiskRead(file: string, bytes: number): number;
  /**
   * Measures O_DIRECT reads of `readBytes`, a multiple of 4096, at places spread over a file, with more and more in
   * flight: the fewest that nearly fill the disk, their rate in bytes per second, and the best rate of all.
   */
  measureDiskSpeed(
    file: string,
    readBytes: number,
    seconds: number,
  ): { depth: number; bytesPerSecond: number; best: number };
  PackWriter: new (options: PackOptions) => PackWriter;
  PackVerifier: new (options: { checkpoint: string; pack: string }) => PackVerifier;
  Engine: new (options: EngineOptions) => Engine;
  WeightlessStore: new (options: WeightlessStoreOptions) => WeightlessStore;
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
    /** Experts that a router chooses for a token: a chance is so many times its softmax; default 1. */
    choices?: number;
  }) => Predictor;
  /** `directory`: goes on from what a trainer saved there. */
  PredictorTrainer: new (
    options: { embedding: TokenEmbedding; settings: TrainerSettings } & (
      | { shape: PredictorShape; seed: number }
      | { directory: string }
    ),
  ) => PredictorTrainer;
}
