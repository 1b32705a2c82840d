/** Reads and writes our own small safetensors files. Model checkpoints are read by the addon. */
import { closeSync, fsyncSync, openSync, readSync, renameSync, rmSync, writeSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { openModelFile } from '../files/model-file.js';
import type { OpenFile } from '../files/regular-file.js';
import { shapeFault } from '../text/json-shape.js';
import { oneLine } from '../text/one-line.js';
import { checkAgainst } from '../text/schema-faults.js';
import { causeOf } from '../text/system-error.js';

const LENGTH_BYTES = 8;
const MAX_HEADER_BYTES = 1 << 20;
const MAX_DEPTH = 8;
const HEADER_ALIGNMENT = 8;

const ARRAYS = { F32: Float32Array, I32: Int32Array, U16: Uint16Array } as const;

type Dtype = keyof typeof ARRAYS;
export type TensorData = Float32Array<ArrayBuffer> | Int32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

interface Tensor {
  dtype: Dtype;
  shape: number[];
  /** Reads the data. */
  data: () => TensorData;
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
  const body = { code: 'checkpoint_invalid' as const, message: `${path}: ${oneLine(what)}` };
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
    throw new SidaError({ code: 'io_error', message: `${path}: ${causeOf(error)}` });
  }
}

/**
 * Reads the header. The data of a tensor is read when it is asked for, so that a file costs no more memory than what
 * its reader expects. Throws checkpoint_invalid, with the numbers, when the file is not valid to the last byte.
 */
export function readSafetensors(path: string): SafetensorsFile {
  const { fd, size } = openFile(path);
  try {
    if (size < LENGTH_BYTES) {
      throw invalid(path, `${size} bytes, a safetensors file has at least ${LENGTH_BYTES}`);
    }
    const headerBytes = readAt(path, fd, 0, LENGTH_BYTES).readBigUInt64LE(0);
    if (headerBytes > BigInt(Math.min(MAX_HEADER_BYTES, size - LENGTH_BYTES))) {
      throw invalid(
        path,
        `a header of ${headerBytes} bytes in a file of ${size}; the file may have been cut, the limit is ${MAX_HEADER_BYTES}`,
      );
    }
    const begin = LENGTH_BYTES + Number(headerBytes);
    const header = parseHeader(path, readAt(path, fd, LENGTH_BYTES, Number(headerBytes)));
    const { __metadata__, ...entries } = header;
    const metadata = metadataSchema.safeParse(__metadata__ ?? {});
    if (!metadata.success) throw invalid(path, '__metadata__ is not an object of strings');
    return { tensors: findTensors(path, entries, begin, size - begin), metadata: metadata.data };
  } finally {
    closeSync(fd);
  }
}

function openFile(path: string): OpenFile {
  const file = openModelFile(dirname(path), basename(path));
  if (file === undefined) throw invalid(path, 'no such file');
  return file;
}

function readAt(path: string, fd: number, position: number, length: number): Buffer<ArrayBuffer> {
  const bytes = Buffer.from(new ArrayBuffer(length));
  for (let done = 0; done < length; ) {
    const read = readSync(fd, bytes, done, length - done, position + done);
    if (read === 0) throw invalid(path, `ends at byte ${position + done}, expected ${position + length}`);
    done += read;
  }
  return bytes;
}

function readData(path: string, dtype: Dtype, position: number, length: number): TensorData {
  const { fd } = openFile(path);
  try {
    return new ARRAYS[dtype](readAt(path, fd, position, length).buffer);
  } finally {
    closeSync(fd);
  }
}

function parseHeader(path: string, bytes: Buffer): Record<string, unknown> {
  const fault = shapeFault(bytes, { depth: MAX_DEPTH, fields: Number.POSITIVE_INFINITY });
  if (fault?.kind === 'duplicate') {
    throw invalid(path, `header: ${fault.path.join('.')}: the key is there twice`);
  }
  if (fault !== undefined) throw invalid(path, `header: nested deeper than ${MAX_DEPTH} levels`);
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

function findTensors(
  path: string,
  entries: Record<string, unknown>,
  dataBegin: number,
  dataBytes: number,
): Map<string, Tensor> {
  const tensors = new Map<string, Tensor>();
  const ranges: [begin: number, end: number, name: string][] = [];
  for (const [name, value] of Object.entries(entries)) {
    const checked = checkAgainst(entrySchema, value);
    if ('fault' in checked) {
      const { path: field, message } = checked.fault;
      throw invalid(path, `tensor ${name}: ${field.join('.')}: ${message}`);
    }
    const { dtype, shape, data_offsets: range } = checked.data;
    const [begin, end] = range;
    const bytes = elements(shape) * ARRAYS[dtype].BYTES_PER_ELEMENT;
    if (end > dataBytes || end - begin !== bytes) {
      throw invalid(
        path,
        `tensor ${name}: ${dtype} [${shape.join(', ')}] takes ${bytes} bytes, found ${begin} to ${end} of ${dataBytes} bytes of data; the file may have been cut`,
        { expected: bytes, found: end - begin },
      );
    }
    ranges.push([begin, end, name]);
    tensors.set(name, { dtype, shape, data: () => readData(path, dtype, dataBegin + begin, bytes) });
  }
  ranges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let covered = 0;
  for (const [begin, end, name] of ranges) {
    if (begin !== covered)
      throw invalid(path, `tensor ${name}: data begins at ${begin}, expected ${covered}`);
    covered = end;
  }
  if (covered !== dataBytes) {
    throw invalid(path, `${dataBytes} bytes of data, its tensors take ${covered}`, {
      expected: covered,
      found: dataBytes,
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
  return tensor.data() as InstanceType<(typeof ARRAYS)[D]>;
}
