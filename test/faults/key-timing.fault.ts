// Whether the time of a refusal tells anything about a key. test/unit/server/access.test.ts has all ways past a key.
import { expect } from 'vitest';
import { KeyRing } from '../../src/access/key-ring.js';
import { keyFile } from '../support/key-file.js';
import { randomFrom } from '../support/malformed-requests.js';
import { fault } from './fault.js';
import { percentile } from './subject.js';

const SAMPLES = 10_000;
const WARM_UP = 20_000;
/** Of Welch's t: the threshold of leakage assessment (Schneider and Moradi, 2015), one false alarm in 10^5. */
const SIGNIFICANT = 4.5;

function welch(a: number[], b: number[]): number {
  const moments = (values: number[]) => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
    return { mean, error: variance / values.length };
  };
  const [one, other] = [moments(a), moments(b)];
  return (one.mean - other.mean) / Math.sqrt(one.error + other.error);
}

fault('the time of a key check', async (report) => {
  const known = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  const keys = keyFile(Object.fromEntries(known.map((name) => [name, ['infer']])));
  const ring = new KeyRing({ apiKeys: keys.path });
  keys.remove();
  const other = keyFile({ wrong: [] });
  other.remove();
  const keyIn = (headers: Record<string, string>) => headers.authorization!.replace('Bearer ', '');
  const first = keyIn(keys.headers.a!);
  // Wrong, all but its last letter, the first and the last one.
  const candidates = [
    keyIn(other.headers.wrong),
    `${first.slice(0, -1)}${first.endsWith('A') ? 'B' : 'A'}`,
    first,
    keyIn(keys.headers.h!),
    // As a request has them: pieces of other texts take longer.
  ].map((key) => Buffer.from(key).toString());
  expect(candidates.map((key) => ring.find(key) !== undefined)).toEqual([false, false, true, true]);
  const times = candidates.map((): number[] => []);
  const random = randomFrom(1);
  // In random order, so that whatever else the machine does meets all of them alike.
  for (let i = 0; i < SAMPLES * candidates.length + WARM_UP; i += 1) {
    const at = Math.floor(random() * candidates.length);
    const started = process.hrtime.bigint();
    ring.find(candidates[at]!);
    const took = Number(process.hrtime.bigint() - started);
    // The first ones run before the compiler has settled.
    if (i >= WARM_UP) times[at]!.push(took);
  }
  // Interruptions are longer than anything a comparison could show.
  const most = percentile(times.flat(), 0.9);
  const [base, ...rest] = times.map((all) => all.filter((took) => took <= most));
  const worst = Math.max(...rest.map((kept) => Math.abs(welch(kept, base!))));
  report.note(`${SAMPLES * candidates.length} checks of 4 kinds, ${percentile(times.flat(), 0.5)} ns each`);
  report.atMost('largest |t|', worst, SIGNIFICANT, '');
});
