import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deviceBudgetBytes, hostBudgetBytes, slotsWithin } from '../../../src/config/budget.js';
import { formatBytes, parseBytes, parseShare } from '../../../src/config/bytes.js';
import { MODEL } from '../queue/scripted-engine.js';

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
  ])('reads %s', (text, bytes) => {
    expect(parseBytes(text)).toBe(bytes);
  });

  it.each(['', '-1', '1e9', 'GiB', '2 G i B', '2Gi', '0x10', '50%', '1.', '99999999999999TiB', 'NaN', '٣'])(
    'refuses %j',
    (text) => {
      expect(parseBytes(text)).toBeUndefined();
    },
  );

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

it('formats sizes with three digits', () => {
  expect([0, 1023, 1024, 1536, 20.5 * 2 ** 20, 700 * 2 ** 20].map(formatBytes)).toEqual([
    '0 B',
    '1023 B',
    '1.00 KiB',
    '1.50 KiB',
    '20.5 MiB',
    '700 MiB',
  ]);
});

describe('a budget, once the model is known', () => {
  const { plan } = MODEL;

  it("is a share of the experts' bytes plus what the rest needs", () => {
    expect(deviceBudgetBytes('50%', plan)).toBe(plan.fixed + 200);
    expect(deviceBudgetBytes('100%', plan)).toBe(plan.resident);
    expect(deviceBudgetBytes('1%', plan)).toBe(plan.smallest);
    expect(hostBudgetBytes('25%', plan)).toBe(100);
  });

  it('is a size as it is', () => {
    expect(deviceBudgetBytes('2GiB', plan)).toBe(2 ** 31);
    expect(hostBudgetBytes('0', plan)).toBe(0);
    expect(() => deviceBudgetBytes('much', plan)).toThrow(/"much"/);
  });

  it('has whole slots, none below the smallest', () => {
    expect(
      [plan.smallest - 1, plan.smallest, plan.fixed + 149, plan.resident, 2 ** 30].map((b) =>
        slotsWithin(b, plan),
      ),
    ).toEqual([0, 1, 2, 8, 8]);
  });
});
