// What may be wrong with a GGUF file, by the items of the list of damaged checkpoints that have their like there.
import { readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CheckpointCase } from './case.js';

export const GGUF = 'model.gguf';

const MAX = 2n ** 64n - 1n;
const U32 = 4;
const COUNTS = { tensors: 8, keys: 16, firstKey: 24 };

type Edit = (bytes: Buffer) => Buffer | undefined;

/** Writes what `edit` makes of the file, or has made in place. */
const edited = (edit: Edit) => (directory: string) => {
  const path = join(directory, GGUF);
  const bytes = readFileSync(path);
  writeFileSync(path, edit(bytes) ?? bytes);
};

const refused = (item: number, what: string, edit: Edit, ...says: (string | RegExp)[]): CheckpointCase => ({
  item,
  what: `GGUF: ${what}`,
  harm: edited(edit),
  says: [GGUF, ...says],
});

/** The place behind a text in the file. */
function behind(bytes: Buffer, text: string): number {
  const at = bytes.indexOf(text);
  if (at < 0) throw new Error(`The sound file has no ${text}`);
  return at + text.length;
}

const u64 =
  (at: (bytes: Buffer) => number, value: bigint): Edit =>
  (bytes) => {
    bytes.writeBigUInt64LE(value, at(bytes));
    return bytes;
  };

const u32 =
  (at: (bytes: Buffer) => number, value: number): Edit =>
  (bytes) => {
    bytes.writeUInt32LE(value, at(bytes));
    return bytes;
  };

const NORM = 'output_norm.weight';
const TOKENS = 'tokenizer.ggml.tokens';
/** Behind a tensor's name: the number of dimensions, the dimensions, the type and the offset. */
const dimensions = (bytes: Buffer) => behind(bytes, NORM);
const size = (bytes: Buffer) => dimensions(bytes) + U32;
const type = (bytes: Buffer) => size(bytes) + 8;
const offset = (bytes: Buffer) => type(bytes) + U32;
/** Behind a key: the type; of an array the type of its elements, their number, and the first one. */
const tokens = (bytes: Buffer) => behind(bytes, TOKENS);

function twice(bytes: Buffer): Buffer {
  const key = 'general.name';
  const begin = bytes.indexOf(key) - 8;
  const value = behind(bytes, key) + U32;
  const end = value + 8 + Number(bytes.readBigUInt64LE(value));
  bytes.writeBigUInt64LE(bytes.readBigUInt64LE(COUNTS.keys) + 1n, COUNTS.keys);
  return Buffer.concat([bytes.subarray(0, end), bytes.subarray(begin, end), bytes.subarray(end)]);
}

export const GGUF_CASES: CheckpointCase[] = [
  refused(1, 'empty file', () => Buffer.alloc(0), 'ends in the magic number', 'found 0'),
  refused(2, 'three bytes', (bytes) => bytes.subarray(0, 3), 'ends in the magic number', 'found 3'),
  refused(10, 'another format', () => Buffer.from('GGMLxxxxxxxxxxxxxxxxxxxxxxxxxxxx'), 'no GGUF file'),
  refused(
    43,
    'big-endian',
    u32(() => 4, 3 << 24),
    'version',
    'big-endian',
  ),
  refused(
    33,
    'a million tensors',
    u64(() => COUNTS.tensors, 1_000_000n),
    'number of tensors',
    '1000000',
  ),
  refused(
    4,
    '2^63 keys',
    u64(() => COUNTS.keys, 2n ** 63n),
    'number of keys',
    '9223372036854775808',
  ),
  refused(
    5,
    'a key of 2^64-1 bytes',
    u64(() => COUNTS.firstKey, MAX),
    'length of a key',
    `${MAX}`,
  ),
  refused(14, 'a key twice', twice, 'key "general.name"', 'appears twice'),
  refused(
    37,
    'nested arrays',
    u32((bytes) => tokens(bytes) + U32, 9),
    TOKENS,
    'nested arrays',
  ),
  refused(37, 'an unknown type', u32(tokens, 77), TOKENS, 'found 77'),
  refused(
    37,
    '2^64-1 texts',
    u64((bytes) => tokens(bytes) + 8, MAX),
    TOKENS,
    'file ends in',
  ),
  refused(
    38,
    'a text of 2^62 bytes',
    u64((bytes) => tokens(bytes) + 16, 2n ** 62n),
    TOKENS,
    'file ends in a text',
  ),
  refused(34, '100 dimensions', u32(dimensions, 100), `tensor "${NORM}"`, 'at most 4', 'found 100'),
  refused(19, 'a size whose bytes wrap', u64(size, 2n ** 62n), `tensor "${NORM}"`, 'less than 2^63 bytes'),
  refused(29, 'a size of another model', u64(size, 16n), 'hole in the data'),
  refused(16, 'an unknown type of numbers', u32(type, 99), `tensor "${NORM}"`, 'found type 99'),
  refused(16, 'a type that is not read', u32(type, 13), `tensor "${NORM}"`, 'Q5_K', 'Q8_0'),
  refused(24, 'an offset past the end', u64(offset, 2n ** 40n), 'hole in the data'),
  refused(26, 'overlapping tensors', u64(offset, 0n), 'overlaps'),
  refused(
    36,
    'an offset that is not aligned',
    u64(offset, 4n),
    `tensor "${NORM}"`,
    'a multiple of 32',
    'found 4',
  ),
  refused(
    30,
    'bytes after the last tensor',
    (bytes) => Buffer.concat([bytes, Buffer.alloc(64)]),
    'bytes after',
  ),
  refused(31, 'cut in half', (bytes) => bytes.subarray(0, bytes.length / 2), 'past the end of the file'),
  refused(31, 'cut in the metadata', (bytes) => bytes.subarray(0, 700), 'file ends in'),
  refused(
    41,
    'no experts',
    u32((bytes) => behind(bytes, 'olmoe.expert_count') + U32, 0),
    'olmoe.expert_count',
  ),
  refused(
    41,
    'a billion layers',
    u32((bytes) => behind(bytes, 'olmoe.block_count') + U32, 1e9),
    'block_count',
  ),
  refused(
    41,
    'a layer too many',
    u32((bytes) => behind(bytes, 'olmoe.block_count') + U32, 3),
    'blk.2.',
    'missing',
  ),
  {
    item: 8,
    what: 'GGUF: a sparse file of 1 TB',
    harm: (directory) => truncateSync(join(directory, GGUF), 2 ** 40),
    says: [GGUF, 'bytes after the last tensor'],
  },
  {
    item: 40,
    what: 'GGUF: a link in a circle',
    harm: (directory) => {
      rmSync(join(directory, GGUF));
      symlinkSync(GGUF, join(directory, GGUF));
    },
    says: [GGUF],
  },
];
