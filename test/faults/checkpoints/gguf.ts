// What may be wrong with a GGUF file.
import { readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Case } from './judge.js';

export const GGUF = 'model.gguf';

type Edit = (bytes: Buffer) => Buffer;
type Place = (bytes: Buffer) => number;

/** The place behind a text in the file, and so many bytes behind that. */
const behind =
  (text: string, more = 0): Place =>
  (bytes) => {
    const at = bytes.indexOf(text);
    if (at < 0) throw new Error(`The sound file has no ${text}`);
    return at + text.length + more;
  };
const header =
  (at: number): Place =>
  () =>
    at;
const u64 =
  (at: Place, value: bigint): Edit =>
  (bytes) => {
    bytes.writeBigUInt64LE(value, at(bytes));
    return bytes;
  };
const u32 =
  (at: Place, value: number): Edit =>
  (bytes) => {
    bytes.writeUInt32LE(value, at(bytes));
    return bytes;
  };

const MAX = 2n ** 64n - 1n;
const KEYS_AT = 16;
const NORM = 'output_norm.weight';
const TENSOR = `tensor "${NORM}"`;
/** Behind a tensor's name: the number of dimensions, the dimensions, the type and the offset. */
const [dimensions, size, type, offset] = [behind(NORM), behind(NORM, 4), behind(NORM, 12), behind(NORM, 16)];
const TOKENS = 'tokenizer.ggml.tokens';
/** Behind a key: the type; of an array the type of its elements, their number, and the first one. */
const [keyType, elementType] = [behind(TOKENS), behind(TOKENS, 4)];
const [elements, firstText] = [behind(TOKENS, 8), behind(TOKENS, 16)];

function twice(bytes: Buffer): Buffer {
  const key = 'general.name';
  const begin = bytes.indexOf(key) - 8;
  const value = behind(key, 4)(bytes);
  const end = value + 8 + Number(bytes.readBigUInt64LE(value));
  bytes.writeBigUInt64LE(bytes.readBigUInt64LE(KEYS_AT) + 1n, KEYS_AT);
  return Buffer.concat([bytes.subarray(0, end), bytes.subarray(begin, end), bytes.subarray(end)]);
}

// biome-ignore format: a table
const EDITS: [what: string, edit: Edit, ...says: string[]][] = [
  ['an empty file', () => Buffer.alloc(0), 'ends in the magic number', 'found 0'],
  ['three bytes', (bytes) => bytes.subarray(0, 3), 'ends in the magic number', 'found 3'],
  ['another format', () => Buffer.from('GGMLxxxxxxxxxxxxxxxxxxxxxxxxxxxx'), 'not a GGUF file'],
  ['a big-endian file', u32(header(4), 3 << 24), 'version', 'big-endian'],
  ['a million tensors', u64(header(8), 1_000_000n), 'number of tensors', '1000000'],
  ['2^63 keys', u64(header(KEYS_AT), 2n ** 63n), 'number of keys', '9223372036854775808'],
  ['a key of 2^64-1 bytes', u64(header(24), MAX), 'length of a key', `${MAX}`],
  ['a key twice', twice, 'key "general.name"', 'appears twice'],
  ['nested arrays', u32(elementType, 9), TOKENS, 'nested arrays'],
  ['an unknown type', u32(keyType, 77), TOKENS, 'found 77'],
  ['2^64-1 texts', u64(elements, MAX), TOKENS, 'file ends in'],
  ['a text of 2^62 bytes', u64(firstText, 2n ** 62n), TOKENS, 'file ends in a text'],
  ['100 dimensions', u32(dimensions, 100), TENSOR, 'at most 4', 'found 100'],
  ['a size whose bytes wrap', u64(size, 2n ** 62n), TENSOR, 'less than 2^63 bytes'],
  ['a size of another model', u64(size, 16n), 'hole in the data'],
  ['an unknown type of numbers', u32(type, 99), TENSOR, 'found type 99'],
  ['a type that is not read', u32(type, 19), TENSOR, 'IQ1_S', 'Q8_0'],
  ['an offset past the end', u64(offset, 2n ** 40n), 'hole in the data'],
  ['overlapping tensors', u64(offset, 0n), 'overlaps'],
  ['an offset that is not aligned', u64(offset, 4n), TENSOR, 'a multiple of 32', 'found 4'],
  ['bytes after the last tensor', (bytes) => Buffer.concat([bytes, Buffer.alloc(64)]), 'bytes after'],
  ['half a file', (bytes) => bytes.subarray(0, bytes.length / 2), 'past the end of the file'],
  ['a file cut in the metadata', (bytes) => bytes.subarray(0, 700), 'file ends in'],
  ['no experts', u32(behind('olmoe.expert_count', 4), 0), 'olmoe.expert_count'],
  ['a billion layers', u32(behind('olmoe.block_count', 4), 1e9), 'block_count'],
  ['a layer too many', u32(behind('olmoe.block_count', 4), 3), 'blk.2.', 'missing'],
];

export const GGUF_FILES: Case[] = [
  ...EDITS.map(
    ([what, edit, ...says]): Case => [
      what,
      (directory) => {
        const path = join(directory, GGUF);
        writeFileSync(path, edit(readFileSync(path)));
      },
      ...[GGUF, ...says],
    ],
  ),
  [
    'a sparse file of 1 TB',
    (directory) => truncateSync(join(directory, GGUF), 2 ** 40),
    ...[GGUF, 'bytes after the last tensor'],
  ],
  [
    'a link in a circle',
    (directory) => {
      rmSync(join(directory, GGUF));
      symlinkSync(GGUF, join(directory, GGUF));
    },
    GGUF,
  ],
];
