// What may be wrong with a safetensors file.
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { safetensors, type TensorEntry, tinyShapes, zeros } from '../../support/tiny-checkpoint.js';
import type { Case } from './judge.js';

const FILE = 'model.safetensors';
const NORM = 'encoder.final_layer_norm.weight';
const { header: HEADER, data: DATA } = zeros(tinyShapes());
const ENTRY = HEADER[NORM]!;
const TEXT = JSON.stringify(HEADER);
const sound = safetensors(HEADER, DATA);

const length = (value: bigint) => safetensors('{}', undefined, value);
const header = (text: string | Buffer) => safetensors(text, DATA);
const withEntries = (more: object, data: Buffer[] = []) =>
  safetensors({ ...HEADER, ...more }, Buffer.concat([DATA, ...data]));
/** The sound file with the entry of one tensor changed; a text stands for the entry as it is. */
const entry = (change: Partial<Record<keyof TensorEntry, unknown>> | string) => {
  const text = typeof change === 'string' ? change : JSON.stringify({ ...ENTRY, ...change });
  return header(TEXT.replace(JSON.stringify(ENTRY), text));
};
/** The same with a raw piece of JSON in place of a field's value. */
const raw = (field: keyof TensorEntry, json: string) =>
  entry(JSON.stringify({ ...ENTRY, [field]: '@' }).replace('"@"', json));
const moved = (by: number) => entry({ data_offsets: ENTRY.data_offsets.map((at) => at + by) });
/** With one tensor more behind the others. */
const extra = (name: string, dtype: string, shape: number[], bytes: number, from = Buffer.alloc(bytes)) => {
  const data_offsets = [DATA.length, DATA.length + bytes];
  return withEntries({ [name]: { dtype, shape, data_offsets } }, [from]);
};
const metadata = (value: unknown) => safetensors({ __metadata__: value, ...HEADER }, DATA);
const million = () => {
  const entries = Array.from(
    { length: 1_000_000 },
    (_, i) => `"t${i}":{"dtype":"U8","shape":[1],"data_offsets":[${i},${i + 1}]}`,
  );
  return safetensors(`{${entries.join()}}`, Buffer.alloc(1_000_000));
};
const flipped = () => {
  const bytes = Buffer.from(sound);
  bytes[bytes.indexOf('"F32"') + 2]! ^= 1;
  return bytes;
};
const none = { dtype: 'F32', shape: [0, 7], data_offsets: [DATA.length, DATA.length] };
const scalar = { dtype: 'F32', shape: [], data_offsets: [DATA.length, DATA.length + 4] };
const halves = { dtype: 'F16', shape: ENTRY.shape, data_offsets: [DATA.length, DATA.length + 8] };
const ODD_HALVES = Buffer.from(Uint16Array.of(0x7e00, 0x7c00, 1, 0xfc00).buffer);

// biome-ignore format: a table
const FILES: [what: string, bytes: Buffer | (() => Buffer), ...says: (string | RegExp)[]][] = [
  ['an empty file', Buffer.alloc(0), 'too short', 'expected at least 8 bytes', 'found 0'],
  ['fewer than 8 bytes', Buffer.alloc(7), 'too short', 'found 7'],
  ['a header of 0 bytes', length(0n), 'found nothing'],
  ['a header of 2^63 bytes', length(1n << 63n), 'expected at most 100000000 bytes', 'found 9223372036854775808'],
  ['a header of 2^64-1 bytes', length((1n << 64n) - 1n), 'found 18446744073709551615'],
  ['a header longer than the file', length(100n), 'past the file', 'found 100'],
  ['a header just over 100 MB', length(100_000_001n), 'found 100000001'],
  ['a header that is not UTF-8', header(Buffer.from([0x7b, 0x22, 0xff, 0x22])), 'UTF-8', '0xff'],
  ['a header that is not JSON', header('{hello}'), 'object key', 'expected string literal'],
  ['a list at the top', header('[]'), 'no JSON object'],
  ['a text at the top', header('"x"'), 'no JSON object'],
  ['a number at the top', header('12'), 'no JSON object'],
  ['leading blanks', header(` \n\t${TEXT}`)],
  ['NULs after the JSON', header(`${TEXT}\0\0`), 'nothing after'],
  ['garbage after the JSON', header(`${TEXT}x`), 'expected end of input'],
  ['a tensor name twice', header(TEXT.replace(/}$/, `,"${NORM}":${JSON.stringify(ENTRY)}}`)), NORM, 'twice'],
  ['data_offsets twice', entry(JSON.stringify(ENTRY).replace('{', '{"data_offsets":[0,4],')), 'twice'],
  ['an unknown dtype', entry({ dtype: 'F31' }), NORM, 'unknown dtype', 'F31'],
  ['a dtype that is a number', entry({ dtype: 7 }), NORM, 'dtype'],
  ['a negative size', raw('shape', '[-4]'), NORM, 'expected'],
  ['a fractional size', raw('shape', '[4.0]'), NORM, 'expected'],
  ['a size that is a text', raw('shape', '["4"]'), NORM, 'expected'],
  ['an infinite size', raw('shape', '[1e999]'), NORM, 'expected'],
  ['a size of 2^53+1', raw('shape', '[9007199254740993]'), NORM, 'expected'],
  ['a size of 2^64-1', raw('shape', '[18446744073709551615]'), NORM, 'expected'],
  ['a shape whose product wraps to 0', raw('shape', '[4294967296,4294967296]'), NORM, 'too large'],
  ['bytes that wrap', raw('shape', '[4611686018427387904]'), NORM, 'too large'],
  ['negative offsets', raw('data_offsets', '[-16,0]'), NORM, 'found -16'],
  ['an end before the begin', entry({ data_offsets: ENTRY.data_offsets.toReversed() }), NORM, 'ends before'],
  ['no offsets', entry({ data_offsets: [] }), NORM, 'array of 2'],
  ['one offset', entry({ data_offsets: [0] }), NORM, 'array of 2'],
  ['three offsets', entry({ data_offsets: [0, 16, 32] }), NORM, 'array of 2'],
  ['a begin past the end', entry({ data_offsets: [1e6, 1e6 + 16] }), NORM, 'past the end'],
  ['an end past the end by one', extra('x', 'U8', [2], 2).subarray(0, -1), 'past the end'],
  ['an overlap', moved(-4), 'overlaps'],
  ['a hole', moved(4), /hole|overlaps/],
  ['unsorted tensors', safetensors(Object.fromEntries(Object.entries(HEADER).reverse()), DATA)],
  ['more data than the shape', entry({ shape: [3] }), NORM, 'expected 12 bytes', 'found 16'],
  ['less data than the shape', entry({ shape: [5] }), NORM, 'expected 20 bytes', 'found 16'],
  ['bytes after the last tensor', Buffer.concat([sound, Buffer.from('PK')]), 'after the last'],
  ['a file cut by a byte', sound.subarray(0, -1), 'past the end'],
  ['half a file', sound.subarray(0, sound.length / 2), 'past the'],
  ['a file cut at its header', sound.subarray(0, sound.length - DATA.length), 'past the end'],
  ['a bit flipped in the header', flipped, 'unknown dtype'],
  ['a million tensors', million, 'too many tensors', 'at most 262144'],
  ['a shape of 100 dimensions', raw('shape', `[${'1,'.repeat(99)}4]`), NORM, 'too many'],
  ['a shape of 49 million dimensions', () => raw('shape', `[${'1,'.repeat(49e6)}4]`), 'at most 16777216 bytes of values', NORM],
  ['tensors without elements, and of rank 0', withEntries({ none, scalar }, [Buffer.alloc(4)])],
  ['half a byte', extra('x', 'F4', [3], 2), 'whole bytes', '12 bits'],
  ['metadata of numbers', metadata({ a: 1 }), '__metadata__', 'a string'],
  ['huge metadata', metadata({ a: 'm'.repeat(3_000_000) })],
  ['no metadata', sound],
  ['a name that is a path', extra('x/../../y', 'F31', [1], 4), 'unknown dtype'],
  ['a name with a NUL', extra('a\0b', 'F31', [1], 4), 'unknown dtype'],
  ['a name that turns the line around', extra('\u202e\u001b[31m', 'F31', [1], 4), 'unknown dtype'],
  ['a name of a MiB', extra('n'.repeat(1 << 20), 'F31', [1], 4), 'name too long'],
  // The norm's old place goes to a tensor that nobody reads.
  ['F16 that is NaN, infinite and denormal', withEntries({ [NORM]: halves, unused: ENTRY }, [ODD_HALVES])],
];

export const HEADERS: Case[] = [
  ...FILES.map(
    ([what, bytes, ...says]): Case => [
      what,
      (directory) => writeFileSync(join(directory, FILE), typeof bytes === 'function' ? bytes() : bytes),
      ...(says.length > 0 ? [FILE, ...says] : []),
    ],
  ),
  [
    'a sparse file of 1 TB with a tiny header',
    (directory) => {
      writeFileSync(join(directory, FILE), safetensors('{}'));
      truncateSync(join(directory, FILE), 2 ** 40);
    },
    ...[FILE, 'after the last', 'found 1099511627766'],
  ],
];
