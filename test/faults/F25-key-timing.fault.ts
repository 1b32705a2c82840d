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

function welch(a: number[], b: number[]): number {
  const moments = (values: number[]) => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
    return { mean, error: variance / values.length };
  };
  const [one, other] = [moments(a), moments(b)];
  return (one.mean - other.mean) / Math.sqrt(one.error + other.error);
}

fault('F25', 'the time of a key check', async (report) => {
  const folder = mkdtempSync(join(tmpdir(), 'sida-timing-'));
  const keys = Array.from({ length: 8 }, newApiKey);
  const lines = keys.map((key, i) => keyLine({ name: `k${i}`, scopes: ['infer'], hash: hashKey(key) }));
  writeFileSync(join(folder, 'keys'), lines.join('\n'), { mode: 0o600 });
  const ring = new KeyRing({ apiKeys: join(folder, 'keys') });
  rmSync(folder, { recursive: true });

  const wrong = newApiKey();
  const last = keys[0]!.at(-1) === 'A' ? 'B' : 'A';
  const candidates = {
    'a wrong key': wrong,
    'all but its last letter': `${keys[0]!.slice(0, -1)}${last}`,
    'the first key': keys[0]!,
    'the last key': keys.at(-1)!,
  };
  const names = Object.keys(candidates) as (keyof typeof candidates)[];
  const times = Object.fromEntries(names.map((name) => [name, [] as number[]]));
  const random = randomFrom(1);
  const until = SAMPLES * names.length;
  // In random order, so that whatever else the machine does meets all of them alike.
  for (let i = 0; i < until + 20_000; i += 1) {
    const name = names[Math.floor(random() * names.length)]!;
    const started = process.hrtime.bigint();
    ring.find(candidates[name]);
    const took = Number(process.hrtime.bigint() - started);
    // The first ones run before the compiler has settled.
    if (i >= 20_000) times[name]!.push(took);
  }
  // Interruptions are longer than anything a comparison could show.
  const all = names.flatMap((name) => times[name]!);
  const most = percentile(all, 0.9);
  const kept = (name: string) => times[name]!.filter((took) => took <= most);
  const base = kept(names[0]!);
  const worst = Math.max(...names.slice(1).map((name) => Math.abs(welch(kept(name), base))));
  report.note(`${all.length} checks of 4 kinds against 8 keys, ${percentile(all, 0.5)} ns each`);
  report.atMost('largest |t|', worst, SIGNIFICANT, '');
});
