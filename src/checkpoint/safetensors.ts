/** Reads and writes our own small safetensors files. Model checkpoints are read by the addon. */
import { closeSync, fstatSync, fsyncSync, openSync, readSync, renameSync, rmSync, writeSync } from 'node:fs';
import { z } from 'zod';
import { SidaError } from '../errors.js';

const LENGTH_BYTES = 8;
const MAX_HEADER_BYTES = 1 << 20;
const MAX_FILE_BYTES = 1 << 30;
const HEADER_ALIGNMENT = 8;

const ARRAYS = { F32: Float32Array, I32: Int32Array, U16: Uint16Array } as const;

type Dtype = keyof typeof ARRAYS;
export type TensorData = Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

interface Tensor {
  dtype: Dtype;
  shape: number[];
  data: TensorData;
}

interface SafetensorsFile {
  tensors: Map<string, Tensor>;
  metadata: Record<string, string>;
}

const size = z.number().int().nonnegative();
const entrySchema = z.strictObject({
  dtype: z.enum(['F32', 'I32', 'U16']),
  shape: z.array(size).max(8),
  data_offsets: z.tuple([size, size]),
});
const metadataSchema = z.record(z.string(), z.string());

function invalid(path: string, what: string, details?: Record<string, number>): SidaError {
  const body = { code: 'checkpoint_invalid' as const, message: `${path}: ${what}` };
  return new SidaError(details === undefined ? body : { ...body, details });
}

function dtypeOf(data: TensorData): Dtype {
  if (data instanceof Float32Array) return 'F32';
  return data instanceof Int32Array ? 'I32' : 'U16';
}

function elements(shape: readonly number[]): number {
  return shape.reduce((product, dimension) => product * dimension, 1);
}

/**
 * Writes a file atomically: it is complete or absent. Tensors with wider elements come first, so that all data is
 * aligned. Throws io_error.
 */
export function writeSafetensors(
  path: string,
  tensors: Record<string, { shape: number[]; data: TensorData }>,
  metadata: Record<string, string>,
): void {
  const order = Object.entries(tensors).sort(
    ([, a], [, b]) => b.data.BYTES_PER_ELEMENT - a.data.BYTES_PER_ELEMENT,
  );
  // Without a prototype, `__proto__` is an ordinary tensor name.
  const header: Record<string, unknown> = Object.assign(Object.create(null), { __metadata__: metadata });
  let offset = 0;
  for (const [name, { shape, data }] of order) {
    if (elements(shape) !== data.length) {
      throw new Error(`Tensor ${name} has ${data.length} elements, [${shape.join(', ')}]. This is a bug.`);
    }
    header[name] = { dtype: dtypeOf(data), shape, data_offsets: [offset, offset + data.byteLength] };
    offset += data.byteLength;
  }
  const json = Buffer.from(JSON.stringify(header));
  const bytes = Math.ceil(json.length / HEADER_ALIGNMENT) * HEADER_ALIGNMENT;
  const head = Buffer.alloc(LENGTH_BYTES + bytes, ' ');
  head.writeBigUInt64LE(BigInt(bytes));
  head.set(json, LENGTH_BYTES);
  writeAtomically(path, [
    head,
    ...order.map(([, { data }]) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength)),
  ]);
}

function writeAtomically(path: string, pieces: Uint8Array[]): void {
  const temporary = `${path}.partial`;
  try {
    const file = openSync(temporary, 'w');
    try {
      for (const piece of pieces) {
        for (let done = 0; done < piece.length; ) done += writeSync(file, piece, done);
      }
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new SidaError({ code: 'io_error', message: `${path}: ${(error as Error).message}` });
  }
}

/** Reads a whole file. Throws checkpoint_invalid, with the numbers, when the file is not valid to the last byte. */
export function readSafetensors(path: string): SafetensorsFile {
  const bytes = readWhole(path);
  if (bytes.length < LENGTH_BYTES) {
    throw invalid(path, `${bytes.length} bytes, a safetensors file has at least ${LENGTH_BYTES}`);
  }
  const headerBytes = bytes.readBigUInt64LE(0);
  if (headerBytes > BigInt(Math.min(MAX_HEADER_BYTES, bytes.length - LENGTH_BYTES))) {
    throw invalid(
      path,
      `a header of ${headerBytes} bytes in a file of ${bytes.length}; the file may have been cut, the limit is ${MAX_HEADER_BYTES}`,
    );
  }
  const begin = LENGTH_BYTES + Number(headerBytes);
  const { __metadata__, ...entries } = parseHeader(path, bytes.subarray(LENGTH_BYTES, begin));
  const metadata = metadataSchema.safeParse(__metadata__ ?? {});
  if (!metadata.success) throw invalid(path, '__metadata__ is not an object of strings');
  const data = bytes.subarray(begin);
  return { tensors: readTensors(path, entries, data), metadata: metadata.data };
}

function readWhole(path: string): Buffer {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    throw invalid(path, (error as Error).message);
  }
  try {
    const status = fstatSync(file);
    if (!status.isFile()) throw invalid(path, 'not a regular file');
    if (status.size > MAX_FILE_BYTES) {
      throw invalid(path, `${status.size} bytes, the limit is ${MAX_FILE_BYTES}`, { bytes: status.size });
    }
    const bytes = Buffer.alloc(status.size);
    let done = 0;
    for (let read = 1; done < bytes.length && read > 0; done += read) {
      read = readSync(file, bytes, done, bytes.length - done, done);
    }
    return bytes.subarray(0, done);
  } finally {
    closeSync(file);
  }
}

function parseHeader(path: string, bytes: Buffer): Record<string, unknown> {
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw invalid(path, `header: ${(error as Error).message}`);
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header)) {
    throw invalid(path, 'header: not a JSON object');
  }
  return header as Record<string, unknown>;
}

function readTensors(path: string, entries: Record<string, unknown>, data: Buffer): Map<string, Tensor> {
  const tensors = new Map<string, Tensor>();
  const ranges: [begin: number, end: number, name: string][] = [];
  for (const [name, value] of Object.entries(entries)) {
    const parsed = entrySchema.safeParse(value);
    if (!parsed.success) {
      const issue = parsed.error.issues[0]!;
      throw invalid(path, `tensor ${name}: ${issue.path.join('.')}: ${issue.message}`);
    }
    const { dtype, shape, data_offsets: range } = parsed.data;
    const [begin, end] = range;
    const bytes = elements(shape) * ARRAYS[dtype].BYTES_PER_ELEMENT;
    if (end > data.length || end - begin !== bytes) {
      throw invalid(
        path,
        `tensor ${name}: ${dtype} [${shape.join(', ')}] takes ${bytes} bytes, found ${begin} to ${end} of ${data.length} bytes of data; the file may have been cut`,
        { expected: bytes, found: end - begin },
      );
    }
    ranges.push([begin, end, name]);
    // Copy the bytes, because a slice of the file may not be aligned.
    const copy = new Uint8Array(data.subarray(begin, end)).buffer;
    tensors.set(name, { dtype, shape, data: new ARRAYS[dtype](copy) });
  }
  ranges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let covered = 0;
  for (const [begin, end, name] of ranges) {
    if (begin !== covered)
      throw invalid(path, `tensor ${name}: data begins at ${begin}, expected ${covered}`);
    covered = end;
  }
  if (covered !== data.length) {
    throw invalid(path, `${data.length} bytes of data, its tensors take ${covered}`, {
      expected: covered,
      found: data.length,
    });
  }
  return tensors;
}

/** The data of a tensor. Throws checkpoint_invalid when it is missing or has another element type or shape. */
export function tensorOf<D extends Dtype>(
  path: string,
  file: SafetensorsFile,
  name: string,
  dtype: D,
  shape: readonly number[],
): InstanceType<(typeof ARRAYS)[D]> {
  const tensor = file.tensors.get(name);
  const expected = `${dtype} [${shape.join(', ')}]`;
  if (tensor === undefined) throw invalid(path, `tensor ${name} is missing, expected ${expected}`);
  if (tensor.dtype !== dtype || tensor.shape.join() !== shape.join()) {
    throw invalid(
      path,
      `tensor ${name}: expected ${expected}, found ${tensor.dtype} [${tensor.shape.join(', ')}]`,
    );
  }
  return tensor.data as InstanceType<(typeof ARRAYS)[D]>;
}
