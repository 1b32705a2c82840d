/** Types of the native addon for checkpoints and packed models. */

export type ExpertDtype =
  | 'f32'
  | 'bf16'
  | 'bf16c'
  | 'int8'
  | 'int4'
  | 'mxfp4'
  | 'q8_0'
  | 'q4_0'
  | 'q4_k'
  | 'q6_k'
  | 'q4_1'
  | 'q5_0'
  | 'q5_1'
  | 'q5_k'
  | 'q3_k'
  | 'q2_k'
  | 'iq4_nl'
  | 'iq4_xs'
  | 'iq2'
  | 'iq3_xxs'
  | 'iq3_s';

export interface WeightFormat {
  /** `mixed`: matrices have types of their own, those that they have in the checkpoint. */
  dtype: ExpertDtype | 'mixed';
  /** Inputs that share a scale: 32, 64 or 128 for int4. Absent for the other types. */
  group?: number;
}

export interface PackFormats {
  experts: WeightFormat;
  /** Element type of linear weights and embeddings. Never int4 or bf16c. */
  dense: WeightFormat;
}

/** One stack of a model: its encoder or its decoder. The last one is the decoder, if there is any. */
export interface StackShape {
  name: 'encoder' | 'decoder';
  layers: number;
  /** Indices of the MoE layers in the stack, ascending. */
  moeLayers: number[];
  /** Whether a token attends only to itself and to the tokens before it. */
  causal: boolean;
  /** Whether the stack cross-attends to the previous stack. */
  crosses: boolean;
}

/** Shape of a model, from its Hugging Face config. */
export interface ModelShape {
  /** `model_type` of the config. */
  family: string;
  vocabSize: number;
  /** Columns of the hidden states. */
  width: number;
  /** Query heads of the last stack, its key-value heads, and the columns of a head. */
  heads: number;
  kvHeads: number;
  headDim: number;
  /** Stacks in the order in which tokens pass through them: encoder and decoder, or one of them alone. */
  stacks: StackShape[];
  /** The most experts of any MoE layer. 0 in a model without MoE layers. */
  experts: number;
  /** Flat id of each MoE layer's first expert, and behind them the number of all experts; (moeLayers + 1). */
  firstExperts: number[];
  /** Experts that the routers choose for a token. */
  topK: number;
  /** Whether the chosen experts' probabilities are divided by their sum before they scale the outputs. */
  normalized: boolean;
  /** Whether the probabilities are sigmoids of the router's logits. Otherwise they are their softmax. */
  sigmoid: boolean;
  /** Hidden columns of an expert. */
  expertWidth: number;
  /** Most tokens of one sequence that an expert takes in one pass. Null means no limit. */
  expertCapacity: number | null;
  /** MoE layers in flat order, stack by stack: `encoder.1`, `encoder.3`, …, `decoder.1`, … */
  moeLayers: string[];
  tiedHead: boolean;
  /** Context length of the model. Null when the config has none. */
  contextTokens: number | null;
  tokens: {
    /** The decoder's first token in an encoder-decoder model. Null in a decoder-only model. */
    start: number | null;
    /** Tokens that end a generation. */
    end: number[];
    pad: number | null;
  };
}

/** A checked Hugging Face checkpoint directory. */
export interface CheckpointInfo {
  shape: ModelShape;
  dtype: 'f32' | 'bf16' | 'f16' | 'fp8' | 'mixed';
  /** Packed element types that lose nothing of this checkpoint. */
  lossless: PackFormats;
  /** Whether the experts can stay in the file: a GGUF file whose matrices are rows of blocks. */
  keepsExperts: boolean;
  /** Names of tensors that the model does not use, such as a vision tower's. */
  others: string[];
  files: { name: string; bytes: number }[];
  tensors: number;
  bytes: number;
}

export interface PackOptions extends PackFormats {
  checkpoint: string;
  /** Leave the experts in the checkpoint, as `keepsExperts` allows. Writing them then only checks them. */
  inPlace?: boolean;
  /** Directory for the packed files. It must exist. */
  out: string;
}

export interface DenseTensor {
  /** Name in the pack, such as `decoder.3.query`. It differs from the checkpoint's name. */
  name: string;
  dtype: ExpertDtype;
  /** `rows` is the checkpoint's layout. `panels` has panels of 32 columns, which the kernels read. */
  layout: 'rows' | 'panels';
  shape: number[];
  offset: number;
  bytes: number;
}

export interface ExpertMatrix {
  name: 'gate' | 'up' | 'down';
  shape: [number, number];
  offset: number;
}

export interface PackLayout {
  experts: WeightFormat & {
    /** `experts.sida`, or `experts.gguf` where the experts stay in a GGUF file, to which it is a link. */
    file: string;
    /** Bytes of one expert, padded to 4 KiB; of the largest when they differ. */
    block_bytes: number;
    /** The matrices of a block, each (n, k), in the order of their offsets. Absent when the types are mixed. */
    matrices?: ExpertMatrix[];
    /** When the types are mixed: the layouts that blocks have, and the index of each layer's. */
    layouts?: { block_bytes: number; matrices: (ExpertMatrix & WeightFormat)[] }[];
    layout_of_layer?: number[];
    layers: string[];
    /** Of each layer where layers differ. */
    experts_per_layer: number | number[];
  };
  dense: WeightFormat & { file: string; bytes: number; tensors: DenseTensor[] };
}

/** Writes a packed model file by file. The caller bounds the work of a call by its range of experts. */
export interface PackWriter {
  readonly layout: PackLayout;
  /** Bytes of the expert file once flat expert ids [0, count) are written. 0 where there is no expert file. */
  expertBytes(count: number): number;
  /** Writes the complete dense file. */
  writeDense(): void;
  /** Writes the blocks of flat expert ids [begin, end) at their offsets in the expert file, if there is one. */
  writeExperts(begin: number, end: number): void;
  /** fsyncs and closes the files. */
  close(): void;
}

/** Errors of packed weights. An error is relative to the largest weight that shares its scale. */
export interface WeightErrors {
  /** Largest error. 0 when nothing was lost. */
  largest: number;
  /** Largest error that the element types allow, mostly half a step; 0 for weights that are only copied. */
  bound: number;
}

export interface VerifiedWeights {
  /** Errors of the experts' matrices. */
  experts: WeightErrors;
  /** Errors of the dense matrices. The other dense tensors are compared bit for bit. */
  dense: WeightErrors;
}

/** Compares a pack with its checkpoint. The caller bounds the work of a call by its range. */
export interface PackVerifier {
  /** Number of dense tensors. */
  readonly tensors: number;
  readonly experts: number;
  /** Largest errors so far. */
  readonly report: VerifiedWeights;
  /** Check tensors or flat expert ids [begin, end). Throw pack_invalid when an error exceeds its bound. */
  checkDense(begin: number, end: number): void;
  checkExperts(begin: number, end: number): void;
  close(): void;
}
