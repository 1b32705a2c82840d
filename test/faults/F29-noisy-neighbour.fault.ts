// One key asks for all that the server can do; another one asks for little and must not wait for it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { hashKey, newApiKey } from '../../src/access/api-key.js';
import { keyLine } from '../../src/access/key-file.js';
import { sst2 } from '../integration/server-process.js';
import { bearer } from '../support/access-cases.js';
import { ask } from '../support/http-client.js';
import { fault } from './fault.js';
import { percentile, Subject } from './subject.js';

const SECONDS = 20;
const CLIENTS = 600;

const folder = mkdtempSync(join(tmpdir(), 'sida-neighbours-'));
const [quiet, noisy] = [newApiKey(), newApiKey()];

let subject: Subject;
beforeAll(async () => {
  writeFileSync(
    join(folder, 'keys'),
    [
      keyLine({ name: 'quiet', scopes: ['infer', 'metrics'], hash: hashKey(quiet) }),
      keyLine({ name: 'noisy', scopes: ['infer'], hash: hashKey(noisy) }),
    ].join('\n'),
  );
  subject = await Subject.startWith({ headers: bearer(quiet) }, '--api-keys', join(folder, 'keys'));
});
afterAll(async () => {
  await subject.stop();
  rmSync(folder, { recursive: true });
});

const SENTENCES = sst2().map(({ text }) => text);

/** As many clients of the noisy key as fill the queue, each asking again at once; what they were answered, by status. */
async function flood(until: number): Promise<Map<number, number>> {
  const statuses = new Map<number, number>();
  const client = async (number: number) => {
    const input = SENTENCES.slice((number % 20) * 32, (number % 20) * 32 + 32);
    while (performance.now() < until) {
      const { status, headers } = await ask(subject.port, '/v1/classify', {
        method: 'POST',
        headers: bearer(noisy),
        body: { task: 'sst2', input },
      });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 429) await delay(Math.min(1, Number(headers['retry-after'])) * 1_000);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(number)));
  return statuses;
}

fault('F29', 'a noisy neighbour', async (report) => {
  const calm = await subject.goodUntil(delay(5_000), 20);
  const ended = flood(performance.now() + SECONDS * 1_000);
  const disturbed = await subject.goodUntil(ended, 20);
  const statuses = await ended;
  const of = (status: number) => statuses.get(status) ?? 0;
  report.note(`the noisy key: ${of(200)} requests of 32 inputs answered, ${of(429)} refused with 429`);
  const [before, under] = [percentile(calm, 0.99), percentile(disturbed, 0.99)];
  report.note(`the quiet one: none of ${disturbed.length} refused`);
  report.note(`its p99 alone ${before.toFixed(0)} ms, beside the other ${under.toFixed(0)} ms`);
  expect([...statuses.keys()].filter((status) => status !== 200 && status !== 429)).toEqual([]);
  expect(of(429)).toBeGreaterThan(0);
  expect((await subject.metrics())('sida_admission_refused_total{reason="share"}')).toBeGreaterThan(0);
  report.atMost('p99 of the quiet key beside its value alone', under / before, 2, '×');
  await subject.recovered(report);
});
