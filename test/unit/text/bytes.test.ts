import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatBytes, formatLeast, parseBytes, parseShare } from '../../../src/text/bytes.js';

describe('parseBytes', () => {
  it.each([
    ['0', 0],
    ['1048576', 1048576],
    ['2GiB', 2 * 2 ** 30],
    ['700MB', 700e6],
    ['1.5GiB', 1.5 * 2 ** 30],
    ['64 KiB', 65536],
    ['1kb', 1000],
    ['10b', 10],
    ['1TiB', 2 ** 40],
    ['2G', 2 * 2 ** 30],
    ['2Gi', 2 * 2 ** 30],
    ['64k', 65536],
    ['1.5m', 1.5 * 2 ** 20],
  ])('reads %s', (text, bytes) => {
    expect(parseBytes(text)).toBe(bytes);
  });

  it.each([
    '',
    '-1',
    '1e9',
    'GiB',
    '2 G i B',
    '2Gb i',
    'iB',
    '2i',
    '0x10',
    '50%',
    '1.',
    '99999999999999TiB',
    'NaN',
    '٣',
  ])('refuses %j', (text) => {
    expect(parseBytes(text)).toBeUndefined();
  });

  it('reads back every whole number', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (bytes) => {
        expect(parseBytes(String(bytes))).toBe(bytes);
      }),
    );
  });
});

describe('parseShare', () => {
  it('reads shares above 0 and up to 100 %', () => {
    expect(parseShare('50%')).toBe(0.5);
    expect(parseShare('0.5 %')).toBe(0.005);
    expect(parseShare('100%')).toBe(1);
  });

  it.each(['0%', '100.1%', '-5%', '50', '%'])('refuses %j', (text) => {
    expect(parseShare(text)).toBeUndefined();
  });
});

it('formats sizes with three significant digits', () => {
  expect([0, 1023, 1024, 1536, 20.5 * 2 ** 20, 700 * 2 ** 20].map(formatBytes)).toEqual([
    '0 B',
    '1023 B',
    '1.00 KiB',
    '1.50 KiB',
    '20.5 MiB',
    '700 MiB',
  ]);
});

it('formats a size that suffices', () => {
  const sizes = [5, 1024, 1025, 50_495_488, 28_311_552, 2 ** 30 + 1];
  expect(sizes.map(formatLeast)).toEqual(['5 B', '1.00 KiB', '1.01 KiB', '48.2 MiB', '27.0 MiB', '1.01 GiB']);
  for (const size of sizes) expect(parseBytes(formatLeast(size))).toBeGreaterThanOrEqual(size);
});
