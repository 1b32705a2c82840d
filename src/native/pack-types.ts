/** Checkpoints and packed models, as the native addon tells of them. */

export type ExpertDtype = 'f32' | 'bf16' | 'int8' | 'int4';

export interface WeightFormat {
  dtype: ExpertDtype;
  /** Inputs that share a scale: 32, 64 or 128 beside int4, absent beside the other types. */
  group?: number;
}

export interface PackFormats {
  experts: WeightFormat;
  /** Of linear weights and embeddings; not int4. */
  dense: WeightFormat;
}

/** One stack of a model: its encoder, or the decoder that all models have last. */
export interface StackShape {
  name: 'encoder' | 'decoder';
  layers: number;
  /** MoE layers, their places in the stack ascending. */
  moeLayers: number[];
  /** A causal stack's tokens see those before them alone. */
  causal: boolean;
  /** Attends across to the stack before it. */
  crosses: boolean;
}

/** Shape of a model, from its Hugging Face config. */
export interface ModelShape {
  /** `model_type` of its config. */
  family: string;
  vocabSize: number;
  /** Of the hidden states. */
  width: number;
  /** Query heads of the last stack, heads of its keys and values, and their columns. */
  heads: number;
  kvHeads: number;
  headDim: number;
  /** In the order tokens go through them: two of an encoder-decoder model, one of a decoder-only one. */
  stacks: StackShape[];
  /** Experts of a MoE layer; 0 in a model without. */
  experts: number;
  /** Experts that the routers choose for a token. */
  topK: number;
  /** The chosen experts' probabilities are divided by their sum before they scale its outputs. */
  normalized: boolean;
  /** Hidden columns of an expert. */
  expertWidth: number;
  /** Tokens that an expert takes of one sequence in one pass; null: any number. */
  expertCapacity: number | null;
  /** MoE layers in flat order, stack by stack: `encoder.1`, `encoder.3`, …, `decoder.1`, … */
  moeLayers: string[];
  tiedHead: boolean;
  /** Tokens that the model was made for; null: not said. */
  contextTokens: number | null;
  tokens: {
    /** The decoder's first token, where an encoder comes before it; else null. */
    start: number | null;
    /** Each ends a generation. */
    end: number[];
    pad: number | null;
  };
}

/** A checked Hugging Face checkpoint directory. */
export interface CheckpointInfo {
  shape: ModelShape;
  dtype: 'f32' | 'bf16' | 'f16' | 'mixed';
  /** Packed element types that lose nothing of this checkpoint. */
  lossless: PackFormats;
  files: { name: string; bytes: number }[];
  tensors: number;
  bytes: number;
  /** sha256 over config.json and the safetensors headers: names the weights' identity without reading them. */
  fingerprint: string;
}

export interface Stripes {
  /** Files that the experts' blocks are dealt round to, 2 to 64. */
  count: number;
  /** What all stripes of one pack carry, and those of no other. */
  stamp: string;
}

export interface PackOptions extends PackFormats {
  checkpoint: string;
  /** Without: one file. */
  stripes?: Stripes;
  /** Directory the packed files are written to; it exists. */
  out: string;
}

export interface DenseTensor {
  /** Of the slot: `decoder.3.query`; not the checkpoint's name. */
  name: string;
  dtype: ExpertDtype;
  /** `rows`: as in the checkpoint; `panels`: 32-column panels, kernel-ready. */
  layout: 'rows' | 'panels';
  shape: number[];
  offset: number;
  bytes: number;
}

export interface PackLayout {
  experts: WeightFormat & {
    /** Absent where there are stripes. */
    file?: string;
    stripes?: Stripes;
    /** Bytes of one expert, padded to 4 KiB. */
    block_bytes: number;
    /** The matrices of a block, (n, k) each, in the order of their offsets. */
    matrices: { name: 'gate' | 'up' | 'down'; shape: [number, number]; offset: number }[];
    layers: string[];
    experts_per_layer: number;
  };
  dense: WeightFormat & { file: string; bytes: number; tensors: DenseTensor[] };
}

/** Writes a packed model file by file; each call does a bounded piece of work. */
export interface PackWriter {
  readonly layout: PackLayout;
  /** The files of the experts as they will be, by stripe. */
  readonly expertFiles: { name: string; bytes: number }[];
  /** Writes the dense file whole. */
  writeDense(): void;
  /** Writes the blocks of flat expert ids [begin, end) at their places in the expert files. */
  writeExperts(begin: number, end: number): void;
  /** fsyncs and closes the files. */
  close(): void;
}

/** Relative to the largest weight that shares a scale with the one that is off. */
export interface WeightErrors {
  /** 0 where nothing was lost. */
  largest: number;
  /** What the element type allows: half a step. */
  bound: number;
}

export interface VerifiedWeights {
  /** Of all matrices of experts. */
  experts: WeightErrors;
  /** Matrices; other dense tensors are compared bit for bit. */
  dense: WeightErrors;
}

/** Compares a pack with the checkpoint it was made from; each call does a bounded piece of work. */
export interface PackVerifier {
  /** Dense tensors. */
  readonly tensors: number;
  readonly experts: number;
  /** Largest errors so far. */
  readonly report: VerifiedWeights;
  /** Tensors, or flat expert ids, [begin, end). Throw pack_invalid where a weight is farther off than its bound. */
  checkDense(begin: number, end: number): void;
  checkExperts(begin: number, end: number): void;
  close(): void;
}
