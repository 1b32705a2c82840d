// Whether the time of a refusal tells anything about a key. F25-keys does the rest to a server.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashKey, newApiKey } from '../../src/access/api-key.js';
import { keyLine } from '../../src/access/key-file.js';
import { KeyRing } from '../../src/access/key-ring.js';
import { randomFrom } from '../support/malformed-requests.js';
import { fault } from './fault.js';
import { percentile } from './subject.js';

const SAMPLES = 10_000;
/** Of Welch's t: the threshold of leakage assessment (Schneider and Moradi, 2015), one false alarm in 10^5. */
const SIGNIFICANT = 4.5;
const MOST_TIMES = 3;

function welch(a: number[], b: number[]): number {
  const moments = (values: number[]) => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
    return { mean, error: variance / values.length };
  };
  const [one, other] = [moments(a), moments(b)];
  return (one.mean - other.mean) / Math.sqrt(one.error + other.error);
}

const NAMES = ['a wrong key', 'all but its last letter', 'the first key', 'the last key'] as const;
type Candidates = Record<(typeof NAMES)[number], string>;

/** What the answer does not tell anyway: how much of a key was right, and which of the keys it was. */
const ALIKE = [
  ['a wrong key', 'all but its last letter'],
  ['the first key', 'the last key'],
] as const;

/** Nanoseconds of a check of each candidate, and the largest |t| between two that must be alike. */
function measure(ring: KeyRing, candidates: Candidates, random: () => number) {
  const times = Object.fromEntries(NAMES.map((name) => [name, [] as number[]]));
  const until = SAMPLES * NAMES.length;
  // In random order, so that whatever else the machine does meets all of them alike.
  for (let i = 0; i < until + 20_000; i += 1) {
    const name = NAMES[Math.floor(random() * NAMES.length)]!;
    const started = process.hrtime.bigint();
    ring.find(candidates[name]);
    const took = Number(process.hrtime.bigint() - started);
    // The first ones run before the compiler has settled.
    if (i >= 20_000) times[name]!.push(took);
  }
  // Interruptions are longer than anything a comparison could show.
  const all = NAMES.flatMap((name) => times[name]!);
  const most = percentile(all, 0.9);
  const kept = (name: string) => times[name]!.filter((took) => took <= most);
  return { all, worst: Math.max(...ALIKE.map(([one, other]) => Math.abs(welch(kept(one), kept(other))))) };
}

fault('F25', 'the time of a key check', async (report) => {
  const folder = mkdtempSync(join(tmpdir(), 'sida-timing-'));
  const keys = Array.from({ length: 8 }, newApiKey);
  const lines = keys.map((key, i) => keyLine({ name: `k${i}`, scopes: ['infer'], hash: hashKey(key) }));
  writeFileSync(join(folder, 'keys'), lines.join('\n'), { mode: 0o600 });
  const ring = new KeyRing({ apiKeys: join(folder, 'keys') });
  rmSync(folder, { recursive: true });

  const last = keys[0]!.at(-1) === 'A' ? 'B' : 'A';
  const candidates = {
    'a wrong key': newApiKey(),
    'all but its last letter': `${keys[0]!.slice(0, -1)}${last}`,
    'the first key': keys[0]!,
    'the last key': keys.at(-1)!,
  };
  const random = randomFrom(1);
  // A busy neighbour may slow one candidate by chance. What the key decides shows every time.
  let measured = measure(ring, candidates, random);
  let times = 1;
  for (; measured.worst > SIGNIFICANT && times < MOST_TIMES; times += 1) {
    measured = measure(ring, candidates, random);
  }
  const { all, worst } = measured;
  const each = `${all.length} checks of 4 kinds against 8 keys, ${percentile(all, 0.5)} ns each`;
  report.note(times === 1 ? each : `${each}; measured ${times} times`);
  report.atMost('largest |t|', worst, SIGNIFICANT, '');
});
