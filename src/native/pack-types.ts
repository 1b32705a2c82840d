/** Checkpoints and packed models, as the native addon tells of them. */

export type ExpertDtype = 'f32' | 'bf16';

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
