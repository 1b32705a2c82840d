import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decodeSummary,
  encodeSummary,
  isResident,
  residentBits,
  type WorkerSummary,
} from '../../../src/placement/worker-summary.js';

const summary: WorkerSummary = {
  worker: 'a',
  experts: 10,
  resident: Uint8Array.of(0b101, 0b10),
  load: 3,
  capacity: 64,
  publishedMs: 1_700_000_000_000,
};

describe('a summary', () => {
  it('has one bit an expert, set where it is resident', () => {
    // Absent, loading and evicting ones count as missing.
    expect(residentBits(Uint8Array.of(2, 0, 2, 1, 3, 0, 0, 0, 0, 2))).toEqual(summary.resident);
    expect([0, 1, 2, 9, 10, 1000].map((id) => isResident(summary, id))).toEqual([
      true,
      false,
      true,
      true,
      false,
      false,
    ]);
  });

  it('is compact: the experts of Qwen3-30B-A3B in about a kilobyte', () => {
    const experts = 48 * 128;
    const text = encodeSummary({ ...summary, experts, resident: new Uint8Array(experts / 8) });
    expect(text.length).toBeLessThan(1200);
  });

  it('comes back as it was', () => {
    const any = fc.record({
      worker: fc.string({ minLength: 1, maxLength: 256 }),
      state: fc.uint8Array({ max: 3, maxLength: 100 }),
      load: fc.nat(),
      capacity: fc.nat(),
      publishedMs: fc.nat(),
    });
    fc.assert(
      fc.property(any, ({ state, ...rest }) => {
        const own = { ...rest, experts: state.length, resident: residentBits(state) };
        const back = decodeSummary(encodeSummary(own))!;
        expect(back).toEqual(own);
        for (const [id, value] of state.entries()) expect(isResident(back, id)).toBe(value === 2);
      }),
    );
  });

  const good = JSON.parse(encodeSummary(summary)) as object;
  it.each([
    ['no JSON', '{"version":1'],
    ['nothing', 'null'],
    ['another version', JSON.stringify({ ...good, version: 2 })],
    ['a missing field', JSON.stringify({ ...good, load: undefined })],
    ['a negative load', JSON.stringify({ ...good, load: -1 })],
    ['no base64', JSON.stringify({ ...good, resident: '?' })],
    ['too few bits', JSON.stringify({ ...good, resident: 'BQ==' })],
    ['too many bits', JSON.stringify({ ...good, resident: 'BQIA' })],
    ['bits of experts that are not there', JSON.stringify({ ...good, resident: 'BQY=' })],
    ['a huge number of experts', JSON.stringify({ ...good, experts: 2 ** 40 })],
  ])('is refused: %s', (_, text) => {
    expect(decodeSummary(JSON.stringify(good))).toEqual(summary);
    expect(decodeSummary(text)).toBeUndefined();
  });

  it('is never made of other text, and never throws', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
        expect(decodeSummary(text)).toBeUndefined();
      }),
    );
  });
});
