import { expect, it } from 'vitest';
import { resolvePlacement } from '../../../src/placement/worth-passing.js';

const MIB = 2 ** 20;
const disk = (...rates: number[]) =>
  rates.map((bytesPerSecond) => ({ direct: true, depth: 2, pieceBytes: MIB, bytesPerSecond }));
/** 100 experts of 4 MiB. */
const plan = { slot: 4 * MIB, experts: 100 };

it('passing on is left to who runs the worker, where they say so', () => {
  expect(resolvePlacement('experts', plan, { slots: 100, disk: disk(1e9) }, 0)).toBe('experts');
  expect(resolvePlacement('any', plan, { slots: 1, disk: disk(1e6) }, 0)).toBe('any');
});

it('pays where what has no slot takes long to load', () => {
  // 50 experts of 4 MiB are 210 MB.
  expect(resolvePlacement('auto', plan, { slots: 50, disk: disk(2e9) }, 0)).toBe('experts');
  expect(resolvePlacement('auto', plan, { slots: 50, disk: disk(3e9) }, 0)).toBe('any');
  // Files on several disks are read at once.
  expect(resolvePlacement('auto', plan, { slots: 50, disk: disk(2e9, 2e9) }, 0)).toBe('any');
  expect(resolvePlacement('auto', plan, { slots: 50, disk: disk(3e9) }, 1e9)).toBe('experts');
});

it('does not pay where everything has a slot, and may where nobody knows how fast the disk is', () => {
  expect(resolvePlacement('auto', plan, { slots: 100, disk: disk(0) }, 0)).toBe('any');
  expect(resolvePlacement('auto', plan, { slots: 120, disk: disk(1e6) }, 1e6)).toBe('any');
  expect(resolvePlacement('auto', plan, { slots: 99, disk: disk(0) }, 0)).toBe('experts');
});
