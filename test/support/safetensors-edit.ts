/** Changes numbers of a safetensors file in place. */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

/** Writes `value` as one element of an F32 or BF16 tensor. */
export function plant(path: string, tensor: string, element: number, value: number): void {
  const bytes = readFileSync(path);
  const headerEnd = 8 + Number(bytes.readBigUInt64LE());
  const header = JSON.parse(bytes.subarray(8, headerEnd).toString()) as Record<string, Entry>;
  const entry = header[tensor];
  if (entry === undefined) throw new Error(`${path} has no tensor ${tensor}`);
  const whole = Buffer.alloc(4);
  whole.writeFloatLE(value);
  // The upper half of a float32 is the bfloat16 if the lower half is 0 or the value is not finite.
  const encoded = { F32: whole, BF16: whole.subarray(2) }[entry.dtype];
  if (encoded === undefined) throw new Error(`${tensor} is of ${entry.dtype}`);
  const file = openSync(path, 'r+');
  writeSync(file, encoded, 0, encoded.length, headerEnd + entry.data_offsets[0] + element * encoded.length);
  closeSync(file);
}
