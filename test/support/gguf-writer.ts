/** Writes a small GGUF file whose numbers are zeros. */
import { writeFileSync } from 'node:fs';

/** The number of each type in GGUF, and its bytes for 32 numbers. */
const TYPES = { F32: [0, 128], Q4_0: [2, 18], Q8_0: [8, 34] } as const;
export type GgufType = keyof typeof TYPES;

/** Value types of GGUF's metadata. */
const UINT32 = 4;
const FLOAT32 = 6;
const STRING = 8;
const ALIGNMENT = 32;

export interface ZeroTensor {
  name: string;
  type: GgufType;
  /** The first is that of the numbers side by side. */
  dimensions: number[];
}

/** Numbers of the metadata are 32-bit: whole ones unsigned, others floating. */
export function writeGguf(
  file: string,
  metadata: Record<string, string | number>,
  tensors: readonly ZeroTensor[],
): void {
  const entries = Object.entries(metadata).map(([key, value]) => Buffer.concat([text(key), entry(value)]));
  let offset = 0;
  const infos = tensors.map(({ name, type, dimensions }) => {
    const [number, bytes] = TYPES[type];
    const info = [text(name), u32(dimensions.length), ...dimensions.map(u64), u32(number), u64(offset)];
    offset += aligned((dimensions.reduce((product, each) => product * each, 1) / 32) * bytes);
    return Buffer.concat(info);
  });
  const counts = [u64(tensors.length), u64(entries.length)];
  const head = Buffer.concat([Buffer.from('GGUF'), u32(3), ...counts, ...entries, ...infos]);
  writeFileSync(file, Buffer.concat([head, Buffer.alloc(aligned(head.length) - head.length + offset)]));
}

function entry(value: string | number): Buffer {
  if (typeof value === 'string') return Buffer.concat([u32(STRING), text(value)]);
  if (Number.isInteger(value)) return Buffer.concat([u32(UINT32), u32(value)]);
  return Buffer.concat([u32(FLOAT32), Buffer.from(Float32Array.of(value).buffer)]);
}

const aligned = (bytes: number) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
const text = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
