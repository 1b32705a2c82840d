import { describe, expect, it } from 'vitest';
import { bodyBytesOf, checkBytesTogether, inputBytesOf } from '../../../../src/tasks/shared/text-limits.js';

const MIB = 1024 ** 2;

describe('the longest text', () => {
  it('is as long as the tokens of the context can be', () => {
    expect(inputBytesOf(16_384, 32)).toBe(512 * 1024);
  });

  it('is 64 KiB at least and 4 MiB at most', () => {
    expect(inputBytesOf(1024, 16)).toBe(65_536);
    expect(inputBytesOf(512, 0)).toBe(65_536);
    expect(inputBytesOf(262_144, 128)).toBe(4 * MIB);
  });

  it('fits into a body with each of its bytes escaped', () => {
    expect(bodyBytesOf(65_536)).toBe(MIB);
    expect(bodyBytesOf(4 * MIB)).toBe(8 * MIB);
    expect(JSON.stringify('\n'.repeat(MIB)).length).toBeLessThanOrEqual(bodyBytesOf(MIB) + 2);
  });
});

it('refuses texts that are more than a body together', () => {
  expect(() => checkBytesTogether(MIB, { maxInputBytes: 1 }, 'input')).not.toThrow();
  expect(() => checkBytesTogether(MIB + 1, { maxInputBytes: 1 }, 'input')).toThrow(
    'the limit is 1048576 bytes',
  );
  expect(() => checkBytesTogether(MIB + 1, { maxInputBytes: MIB }, 'input')).not.toThrow();
});
