// One key asks for all that the server can do; another one asks for little and must not wait for it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect } from 'vitest';
import { hashKey, newApiKey } from '../../src/access/api-key.js';
import { keyLine } from '../../src/access/key-file.js';
import { bearer } from '../support/access-cases.js';
import { ask } from '../support/http-client.js';
import { sst2 } from '../support/server-process.js';
import { type FaultReport, fault } from './fault.js';
import { percentile, Subject } from './subject.js';

/** Tokens a minute of each key: about twice what the quiet one uses here. */
const RATE = 40_000;

const folder = mkdtempSync(join(tmpdir(), 'sida-neighbours-'));
const keys = join(folder, 'keys');
const [quiet, noisy] = [newApiKey(), newApiKey()];
writeFileSync(
  keys,
  [
    keyLine({ name: 'quiet', scopes: ['infer', 'metrics'], hash: hashKey(quiet) }),
    keyLine({ name: 'noisy', scopes: ['infer'], hash: hashKey(noisy) }),
  ].join('\n'),
  { mode: 0o600 },
);
afterAll(() => rmSync(folder, { recursive: true }));

const SENTENCES = sst2().map(({ text }) => text);

/**
 * Clients of the noisy key, each asking again at once, or after a second where it was refused; its answers by status.
 */
async function flood(port: number, clients: number, until: number): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  const client = async (number: number) => {
    const input = SENTENCES.slice((number % 20) * 32, (number % 20) * 32 + 32);
    while (performance.now() < until) {
      const { status } = await ask(port, '/v1/classify', {
        method: 'POST',
        headers: bearer(noisy),
        body: { task: 'sst2', input },
      });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 429) await delay(1_000);
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
  return statuses;
}

interface Noise {
  clients: number;
  seconds: number;
  /** Why the noisy key is refused. */
  refused: 'rate' | 'share';
  /** The p99 of the quiet key may be at most so many times that without noise. */
  bound: number;
}

async function neighbours(report: FaultReport, noise: Noise, ...args: string[]): Promise<void> {
  const { clients, seconds, refused, bound } = noise;
  const subject = await Subject.startWith({ headers: bearer(quiet) }, '--api-keys', keys, ...args);
  const calm = await subject.goodUntil(delay(5_000), 50);
  const flooding = flood(subject.port, clients, performance.now() + seconds * 1_000);
  const disturbed = await subject.goodUntil(flooding, 50);
  const statuses = await flooding;
  const of = (status: number) => statuses.get(status) ?? 0;
  report.note(`the noisy key: ${of(200)} requests of 32 inputs answered, ${of(429)} refused with 429`);
  report.note(`the quiet one: ${disturbed.length} answered, none refused`);
  const [alone, beside] = [calm, disturbed].map((latencies) => percentile(latencies, 0.99)) as [
    number,
    number,
  ];
  const median = percentile(disturbed, 0.5);
  report.note(`its p50 ${median.toFixed(0)} ms, p99 ${beside.toFixed(0)} ms, alone ${alone.toFixed(0)} ms`);
  expect([...statuses.keys()].filter((status) => status !== 200 && status !== 429)).toEqual([]);
  expect(of(429)).toBeGreaterThan(0);
  expect((await subject.metrics())(`sida_admission_refused_total{reason="${refused}"}`)).toBe(of(429));
  report.ratio('p99 of the quiet key, of its p99 alone,', beside / alone, 2, bound, '×');
  await subject.recovered(report);
  await subject.stop();
}

fault('F29', 'a noisy neighbour under --rate-limit', (report) =>
  neighbours(report, { clients: 100, seconds: 30, refused: 'rate', bound: 6 }, '--rate-limit', String(RATE)),
);

// The engine computes what it has taken, and whoever comes waits for that, however fair the queue is.
fault('F29', 'a noisy neighbour without --rate-limit', (report) =>
  neighbours(report, { clients: 400, seconds: 10, refused: 'share', bound: 300 }),
);
