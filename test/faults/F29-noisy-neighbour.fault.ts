// One key asks for all that the server can do; another one asks for little and must not wait for it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect } from 'vitest';
import { hashKey, newApiKey } from '../../src/access/api-key.js';
import { keyLine } from '../../src/access/key-file.js';
import { sst2 } from '../integration/server-process.js';
import { bearer } from '../support/access-cases.js';
import { ask } from '../support/http-client.js';
import { type FaultReport, fault } from './fault.js';
import { percentile, Subject } from './subject.js';

const SECONDS = 20;
/** More than the queue takes. */
const CLIENTS = 600;
/** Tokens a minute of each key: about four times what the quiet one uses here. */
const RATE = 100_000;

const folder = mkdtempSync(join(tmpdir(), 'sida-neighbours-'));
const keys = join(folder, 'keys');
const [quiet, noisy] = [newApiKey(), newApiKey()];
writeFileSync(
  keys,
  [
    keyLine({ name: 'quiet', scopes: ['infer', 'metrics'], hash: hashKey(quiet) }),
    keyLine({ name: 'noisy', scopes: ['infer'], hash: hashKey(noisy) }),
  ].join('\n'),
);
afterAll(() => rmSync(folder, { recursive: true }));

const SENTENCES = sst2().map(({ text }) => text);

/** Clients of the noisy key, each asking again at once, or after a second where it was refused; its answers by status. */
async function flood(port: number, until: number): Promise<Map<number, number>> {
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
  await Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
  return statuses;
}

/** `reason`: why the noisy key is refused. */
async function neighbours(report: FaultReport, reason: 'rate' | 'share', ...args: string[]): Promise<void> {
  const subject = await Subject.startWith({ headers: bearer(quiet) }, '--api-keys', keys, ...args);
  const calm = await subject.goodUntil(delay(SECONDS * 250), 20);
  const flooding = flood(subject.port, performance.now() + SECONDS * 1_000);
  const disturbed = await subject.goodUntil(flooding, 20);
  const statuses = await flooding;
  const of = (status: number) => statuses.get(status) ?? 0;
  report.note(`the noisy key: ${of(200)} requests of 32 inputs answered, ${of(429)} refused with 429`);
  report.note(`the quiet one: ${disturbed.length} answered, none refused`);
  const [alone, beside] = [calm, disturbed].map((latencies) => percentile(latencies, 0.99)) as [
    number,
    number,
  ];
  report.note(
    `its p50 ${percentile(disturbed, 0.5).toFixed(0)} ms, p99 ${beside.toFixed(0)} ms, alone ${alone.toFixed(0)} ms`,
  );
  expect(of(200) + of(429)).toBe([...statuses.values()].reduce((sum, count) => sum + count, 0));
  expect(of(429)).toBeGreaterThan(0);
  expect((await subject.metrics())(`sida_admission_refused_total{reason="${reason}"}`)).toBe(of(429));
  report.atMost('p99 of the quiet key, of its p99 alone,', beside / alone, 2, '×');
  await subject.recovered(report);
  await subject.stop();
}

fault('F29', 'a noisy neighbour under --rate-limit', (report) =>
  neighbours(report, 'rate', '--rate-limit', String(RATE)),
);

// The engine computes what it has taken; whoever comes waits for that, however fair the queue is.
fault('F29', 'a noisy neighbour without --rate-limit', (report) => neighbours(report, 'share'));
