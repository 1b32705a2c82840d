import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import {
  readSafetensors,
  type TensorData,
  tensorOf,
  writeSafetensors,
} from '../../../src/checkpoint/safetensors.js';
import { SidaError } from '../../../src/errors.js';

const root = mkdtempSync(join(tmpdir(), 'sida-safetensors-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const path = join(root, 'a.safetensors');

function raw(header: unknown, data = Buffer.alloc(0), length?: bigint): void {
  const json = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(length ?? BigInt(json.length));
  writeFileSync(path, Buffer.concat([size, json, data]));
}

const entry = (begin: number, end: number, shape = [(end - begin) / 4], dtype = 'F32') => ({
  dtype,
  shape,
  data_offsets: [begin, end],
});

describe('safetensors', () => {
  it('reads back tensors of any element type, shape and name', () => {
    const data: fc.Arbitrary<TensorData> = fc.oneof(
      fc.array(fc.float(), { maxLength: 9 }).map((values) => Float32Array.from(values)),
      fc.array(fc.nat(65_535), { maxLength: 9 }).map((values) => Uint16Array.from(values)),
      fc.array(fc.integer(), { maxLength: 9 }).map((values) => Int32Array.from(values)),
    );
    const name = fc.string({ unit: 'binary', minLength: 1 }).filter((s) => s !== '__metadata__');
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(name, data), { selector: ([n]) => n }), (pairs) => {
        // Without a prototype, `__proto__` is an ordinary tensor name.
        const tensors = Object.create(null) as Record<string, { shape: number[]; data: TensorData }>;
        for (const [key, values] of pairs) tensors[key] = { shape: [values.length, 1], data: values };
        writeSafetensors(path, tensors, { format: 'x' });
        const read = readSafetensors(path);
        expect(read.metadata).toEqual({ format: 'x' });
        expect(read.tensors.size).toBe(pairs.length);
        for (const [key, values] of pairs) expect(read.tensors.get(key)!.data()).toEqual(values);
      }),
      { numRuns: 30, examples: [[[['__proto__', Int32Array.from([1])]]]] },
    );
    expect(readdirSync(root)).toEqual(['a.safetensors']);
  });

  it.each([
    ['no file', () => rmSync(path, { force: true }), 'no such file'],
    ['an empty file', () => writeFileSync(path, ''), '0 bytes'],
    ['a header longer than the file', () => raw('{}', undefined, 3n), 'header of 3 bytes in a file of 10'],
    ['a header of 2^63 bytes', () => raw('{}', undefined, 1n << 63n), '9223372036854775808'],
    ['a header that is no JSON', () => raw('{,}'), 'header'],
    ['a header that is a list', () => raw('[]'), 'not a JSON object'],
    ['an unknown element type', () => raw({ a: entry(0, 4, [1], 'F8') }, Buffer.alloc(4)), 'a: dtype'],
    ['an unknown field', () => raw({ a: { ...entry(0, 4), b: 1 } }, Buffer.alloc(4)), 'tensor a'],
    ['a negative size', () => raw({ a: entry(0, 4, [-1]) }, Buffer.alloc(4)), 'shape.0'],
    ['sizes that overflow', () => raw({ a: entry(0, 4, [2 ** 52, 2 ** 52]) }, Buffer.alloc(4)), 'takes'],
    ['data past the end', () => raw({ a: entry(0, 8) }, Buffer.alloc(4)), '0 to 8 of 4 bytes'],
    ['a range of another size', () => raw({ a: entry(0, 8, [1]) }, Buffer.alloc(8)), 'takes 4 bytes'],
    ['an overlap', () => raw({ a: entry(0, 8), b: entry(4, 8) }, Buffer.alloc(8)), 'begins at 4, expected 8'],
    ['a hole', () => raw({ a: entry(4, 8) }, Buffer.alloc(8)), 'begins at 4, expected 0'],
    ['data without a tensor', () => raw({ a: entry(0, 4) }, Buffer.alloc(6)), '6 bytes of data'],
    ['metadata that is no text', () => raw({ __metadata__: { a: 1 } }), '__metadata__'],
    ['a directory', () => mkdirSync(path), 'expected a regular file, found a directory'],
    ['a link out of its directory', () => symlinkSync('/etc/hostname', path), 'link out of the directory'],
    ['many levels', () => raw(`{"a":${'['.repeat(1e5)}`), 'nested deeper than 8 levels'],
  ])('refuses %s', (_, write, message) => {
    rmSync(path, { recursive: true, force: true });
    write();
    expect(() => readSafetensors(path)).toThrow(
      expect.objectContaining({ code: 'checkpoint_invalid', message: expect.stringContaining(message) }),
    );
  });

  it('refuses every truncated file, and never crashes on other damage', () => {
    rmSync(path, { force: true });
    const tensors = {
      a: { shape: [2, 3], data: new Float32Array(6) },
      b: { shape: [3], data: new Uint16Array(3) },
    };
    writeSafetensors(path, tensors, {});
    const whole = readFileSync(path);
    for (let length = 0; length < whole.length; length++) {
      writeFileSync(path, whole.subarray(0, length));
      expect(() => readSafetensors(path)).toThrow(SidaError);
    }
    const flip = fc.tuple(fc.nat(whole.length - 1), fc.nat(255));
    fc.assert(
      fc.property(fc.array(flip, { minLength: 1, maxLength: 4 }), (flips) => {
        const damaged = Buffer.from(whole);
        for (const [at, byte] of flips) damaged[at] = byte;
        writeFileSync(path, damaged);
        try {
          readSafetensors(path);
        } catch (error) {
          expect(error).toMatchObject({ code: 'checkpoint_invalid' });
        }
      }),
      { numRuns: 500 },
    );
  });

  it('returns a tensor only as its own type and shape', () => {
    writeSafetensors(path, { a: { shape: [2], data: Int32Array.of(4, 5) } }, {});
    const file = readSafetensors(path);
    expect(tensorOf(path, file, 'a', 'I32', [2])).toEqual(Int32Array.of(4, 5));
    expect(() => tensorOf(path, file, 'a', 'F32', [2])).toThrow('expected F32 [2], found I32 [2]');
    expect(() => tensorOf(path, file, 'a', 'I32', [1, 2])).toThrow('expected I32 [1, 2], found I32 [2]');
    expect(() => tensorOf(path, file, 'b', 'I32', [2])).toThrow('b is missing, expected I32 [2]');
  });

  it('throws io_error when it cannot write', () => {
    expect(() => writeSafetensors(join(root, 'none', 'a'), {}, {})).toThrow(
      expect.objectContaining({ code: 'io_error' }),
    );
  });
});
