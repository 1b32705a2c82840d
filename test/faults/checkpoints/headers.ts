// Items 1 to 39: what may be wrong with a safetensors file.
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { safetensors, type TensorEntry, tinyShapes, zeros } from '../../support/tiny-checkpoint.js';
import type { CheckpointCase } from './case.js';

const FILE = 'model.safetensors';
const NORM = 'encoder.final_layer_norm.weight';
const whole = zeros(tinyShapes());
const sound = safetensors(whole.header, whole.data);
const headerText = JSON.stringify(whole.header);

const write = (bytes: Buffer) => (directory: string) => writeFileSync(join(directory, FILE), bytes);
const refused = (
  item: number,
  what: string,
  bytes: Buffer,
  ...says: (string | RegExp)[]
): CheckpointCase => ({
  item,
  what,
  harm: write(bytes),
  says: [FILE, ...says],
});
const taken = (item: number, what: string, bytes: Buffer): CheckpointCase => ({
  item,
  what,
  harm: write(bytes),
});

const length = (value: bigint) => safetensors('{}', undefined, value);
const header = (text: string | Buffer) => safetensors(text, whole.data);
const range = (expected: string, found: string) => [`expected ${expected}`, `found ${found}`];

/** The sound file with the entry of one tensor changed; a text stands for the entry as it is. */
function entry(change: Partial<Record<keyof TensorEntry, unknown>> | string): Buffer {
  const old = JSON.stringify(whole.header[NORM]);
  const text = typeof change === 'string' ? change : JSON.stringify({ ...whole.header[NORM], ...change });
  return header(headerText.replace(old, text));
}

/** The same with a raw piece of JSON in place of a field's value. */
function raw(field: keyof TensorEntry, json: string): Buffer {
  const text = JSON.stringify({ ...whole.header[NORM], [field]: '@' }).replace('"@"', json);
  return entry(text);
}

/** With one tensor more behind the others. */
function extra(name: string, dtype: string, shape: number[], data: Buffer): Buffer {
  const at = whole.data.length;
  const added = { dtype, shape, data_offsets: [at, at + data.length] };
  return safetensors({ ...whole.header, [name]: added }, Buffer.concat([whole.data, data]));
}

function metadata(value: unknown): Buffer {
  return safetensors({ __metadata__: value, ...whole.header }, whole.data);
}

/** A million tensors of a byte. */
function million(): Buffer {
  const count = 1_000_000;
  const entries = Array.from(
    { length: count },
    (_, i) => `"t${i}":{"dtype":"U8","shape":[1],"data_offsets":[${i},${i + 1}]}`,
  );
  return safetensors(`{${entries.join()}}`, Buffer.alloc(count));
}

/** The last tensors in the other order of names, over the same data. */
function unsorted(): Buffer {
  return safetensors(Object.fromEntries(Object.entries(whole.header).reverse()), whole.data);
}

function moved(by: (offsets: [number, number]) => unknown, data = whole.data): Buffer {
  return safetensors(
    {
      ...whole.header,
      [NORM]: { ...whole.header[NORM], data_offsets: by(whole.header[NORM]!.data_offsets) },
    },
    data,
  );
}

const bits = (values: number[]) => Buffer.from(Uint16Array.from(values).buffer);

export const HEADER_CASES: CheckpointCase[] = [
  refused(1, 'an empty file', Buffer.alloc(0), 'too short', ...range('at least 8 bytes', '0')),
  refused(2, 'fewer than 8 bytes', Buffer.alloc(7), 'too short', 'found 7'),
  refused(3, 'a header of 0 bytes', length(0n), 'found nothing'),
  refused(
    4,
    'a header of 2^63 bytes',
    length(1n << 63n),
    ...range('at most 100000000 bytes', '9223372036854775808'),
  ),
  refused(5, 'a header of 2^64-1 bytes', length((1n << 64n) - 1n), 'found 18446744073709551615'),
  refused(6, 'a header longer than the file', length(100n), 'past the file', 'found 100'),
  refused(7, 'a header just over 100 MB', length(100_000_001n), 'found 100000001'),
  {
    item: 8,
    what: 'a sparse file of 1 TB with a tiny header',
    harm: (directory) => {
      write(safetensors('{}'))(directory);
      truncateSync(join(directory, FILE), 2 ** 40);
    },
    says: [FILE, 'after the last', 'found 1099511627766'],
  },
  refused(9, 'a header that is not UTF-8', header(Buffer.from([0x7b, 0x22, 0xff, 0x22])), 'UTF-8', '0xff'),
  refused(10, 'a header that is not JSON', header('{hello}'), 'object key', 'expected string literal'),
  ...['[]', '"x"', '12'].map((text) => refused(11, `${text} at the top`, header(text), 'no JSON object')),
  taken(12, 'leading blanks', header(` \n\t${headerText}`)),
  refused(13, 'NULs after the JSON', header(`${headerText}\0\0`), 'nothing after'),
  refused(13, 'garbage after the JSON', header(`${headerText}x`), 'expected end of input'),
  refused(
    14,
    'a tensor name twice',
    header(headerText.replace(/}$/, `,"${NORM}":${JSON.stringify(whole.header[NORM])}}`)),
    NORM,
    'twice',
  ),
  refused(
    15,
    'data_offsets twice',
    entry(JSON.stringify(whole.header[NORM]).replace('{', '{"data_offsets":[0,4],')),
    'twice',
  ),
  refused(16, 'an unknown dtype', entry({ dtype: 'F31' }), NORM, 'unknown dtype', 'F31'),
  refused(17, 'a dtype that is a number', entry({ dtype: 7 }), NORM, 'dtype'),
  ...['[-4]', '[4.0]', '["4"]', '[1e999]', '[9007199254740993]', '[18446744073709551615]'].map((shape) =>
    refused(18, `shape ${shape}`, raw('shape', shape), NORM, 'expected'),
  ),
  refused(19, 'a shape whose product wraps to 0', raw('shape', '[4294967296,4294967296]'), NORM, 'too large'),
  refused(20, 'bytes that wrap', raw('shape', '[4611686018427387904]'), NORM, 'too large'),
  refused(21, 'negative offsets', raw('data_offsets', '[-16,0]'), NORM, 'found -16'),
  refused(
    22,
    'an end before the begin',
    moved(([begin, end]) => [end, begin]),
    NORM,
    'ends before',
  ),
  ...[[], [0], [0, 16, 32]].map((offsets) =>
    refused(
      23,
      `${offsets.length} offsets`,
      moved(() => offsets),
      NORM,
      'array of 2',
    ),
  ),
  refused(
    24,
    'a begin past the end',
    moved(() => [1e6, 1e6 + 16]),
    NORM,
    'past the end',
  ),
  refused(
    25,
    'an end past the end by one',
    extra('x', 'U8', [2], Buffer.alloc(2)).subarray(0, -1),
    'past the end',
  ),
  refused(
    26,
    'an overlap',
    moved(([begin, end]) => [begin - 4, end - 4]),
    'overlaps',
  ),
  refused(
    27,
    'a hole',
    moved(([begin, end]) => [begin + 4, end + 4]),
    /hole|overlaps/,
  ),
  taken(28, 'unsorted tensors', unsorted()),
  refused(29, 'more data than the shape', entry({ shape: [3] }), NORM, ...range('12 bytes', '16')),
  refused(29, 'less data than the shape', entry({ shape: [5] }), NORM, ...range('20 bytes', '16')),
  refused(30, 'bytes after the last tensor', Buffer.concat([sound, Buffer.from('PK')]), 'after the last'),
  refused(31, 'a file cut by a byte', sound.subarray(0, -1), 'past the end'),
  refused(31, 'half a file', sound.subarray(0, sound.length / 2), 'past the'),
  refused(
    31,
    'a file cut at its header',
    sound.subarray(0, sound.length - whole.data.length),
    'past the end',
  ),
  {
    item: 32,
    what: 'a bit flipped in the header',
    harm: (directory) => {
      const bytes = Buffer.from(sound);
      bytes[bytes.indexOf('"F32"') + 2]! ^= 1;
      write(bytes)(directory);
    },
    says: [FILE, 'unknown dtype'],
  },
  refused(33, 'a million tensors', million(), FILE, 'too many tensors', 'at most 262144'),
  refused(34, 'a shape of 100 dimensions', raw('shape', `[${'1,'.repeat(99)}4]`), NORM, 'too many'),
  {
    item: 34,
    what: 'a shape of 49 million dimensions',
    harm: (directory) => write(raw('shape', `[${'1,'.repeat(49e6)}4]`))(directory),
    says: [FILE, 'at most 16777216 bytes of values', NORM],
  },
  taken(
    35,
    'tensors without elements, and of rank 0',
    (() => {
      const at = whole.data.length;
      const none = { dtype: 'F32', shape: [0, 7], data_offsets: [at, at] };
      const scalar = { dtype: 'F32', shape: [], data_offsets: [at, at + 4] };
      return safetensors({ ...whole.header, none, scalar }, Buffer.concat([whole.data, Buffer.alloc(4)]));
    })(),
  ),
  refused(36, 'half a byte', extra('x', 'F4', [3], Buffer.alloc(2)), 'whole bytes', '12 bits'),
  refused(37, 'metadata of numbers', metadata({ a: 1 }), '__metadata__', 'a string'),
  taken(37, 'huge metadata', metadata({ a: 'm'.repeat(3_000_000) })),
  taken(37, 'no metadata', sound),
  ...['x/../../y', 'a\0b', '\u202e\u001b[31m', 'n'.repeat(1 << 20)].map((name) =>
    refused(
      38,
      `a name of ${name.length} characters: ${JSON.stringify(name.slice(0, 20))}`,
      extra(name, 'F31', [1], Buffer.alloc(4)),
      name.length > 1024 ? 'name too long' : 'unknown dtype',
    ),
  ),
  taken(
    39,
    'F16 that is NaN, infinite and denormal',
    (() => {
      const old = whole.header[NORM]!;
      const at = whole.data.length;
      const halves = { dtype: 'F16', shape: old.shape, data_offsets: [at, at + 8] };
      // The norm's old place goes to a tensor that nobody reads.
      return safetensors(
        { ...whole.header, [NORM]: halves, unused: old },
        Buffer.concat([whole.data, bits([0x7e00, 0x7c00, 1, 0xfc00])]),
      );
    })(),
  ),
];
