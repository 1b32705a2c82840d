/** Types of the native addon for GGUF files. */

/**
 * A value of the metadata. Texts that are no UTF-8 are bytes. 64-bit integers are bigints. Arrays of numbers are typed
 * arrays of their element type.
 */
export type GgufValue =
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | boolean[]
  | (string | Uint8Array)[]
  | Int8Array
  | Uint16Array
  | Int16Array
  | Uint32Array
  | Int32Array
  | Float32Array
  | Float64Array
  | BigUint64Array
  | BigInt64Array;

export interface GgufTensor {
  name: string;
  /** The type as GGUF names it: `F32`, `Q8_0`, `Q4_K`, … */
  type: string;
  /** Rows before columns, as in a Hugging Face checkpoint. */
  shape: number[];
  bytes: number;
}

/** What a GGUF file says beside its weights. Of a split file, what all parts together say. */
export interface GgufInfo {
  /** The text of a config.json, in the form of Hugging Face checkpoints. */
  config: string;
  /** The text of a generation_config.json. Null when the file says nothing about sampling. */
  generationConfig: string | null;
  metadata: Record<string, GgufValue>;
  tensors: GgufTensor[];
}
