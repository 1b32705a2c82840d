// Labels that are too long to score: refused at once and charged, and clients that leave take their work with them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect } from 'vitest';
import { hashKey, newApiKey } from '../../src/access/api-key.js';
import { keyLine } from '../../src/access/key-file.js';
import { bearer } from '../support/access-cases.js';
import { ask } from '../support/http-client.js';
import { fault } from './fault.js';
import { percentile, Subject } from './subject.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-labels-'));
const keys = join(folder, 'keys');
const [good, bad] = [newApiKey(), newApiKey()];
writeFileSync(
  keys,
  [
    keyLine({ name: 'good', scopes: ['infer', 'metrics'], hash: hashKey(good) }),
    keyLine({ name: 'bad', scopes: ['infer'], hash: hashKey(bad) }),
  ].join('\n'),
  { mode: 0o600 },
);
afterAll(() => rmSync(folder, { recursive: true }));

/** 64 labels of about a thousand tokens each. */
const LABELS = Array.from(
  { length: 64 },
  (_, label) => `${String.fromCharCode(97 + (label % 26))}${label}${'1.'.repeat(500)}`,
);
const body = (input: string | string[]) => ({ template: '{text}', labels: LABELS, input });
const MINUTE = 200_000;

fault('F39', 'labels that are too long', async (report) => {
  const subject = await Subject.startWith(
    { headers: bearer(good) },
    '--api-keys',
    keys,
    '--rate-limit',
    String(MINUTE),
  );
  const send = (input: string | string[]) =>
    ask(subject.port, '/v1/classify', { method: 'POST', headers: bearer(bad), body: body(input) });
  const quiet = percentile(await subject.goodUntil(delay(3_000), 20), 0.5);

  const took: number[] = [];
  const remaining: number[] = [];
  for (const input of ['a', ['a', 'b'], 'a']) {
    const started = performance.now();
    const { status, json, headers } = await send(input);
    took.push(performance.now() - started);
    remaining.push(Number(headers['x-ratelimit-remaining-tokens']));
    expect([status, json.error.code], JSON.stringify(json)).toEqual([422, 'cannot_run']);
    expect(json.error.message).toMatch(/\d+ .*\d+/);
  }
  // What the header tells is after this reservation: a refund of everything would leave the first and third alike.
  expect(remaining[2]).toBeLessThan(remaining[0]! - 20_000);
  report.note(`3 refused with 422; a minute's tokens left ${remaining.join(', ')}`);
  report.atMost('the slowest refusal, of a usual answer,', Math.max(...took) / quiet, 100, '×');

  // Forty at once, and all clients leave.
  const leaving = Array.from({ length: 40 }, () => {
    const gone = new AbortController();
    const left = fetch(`http://127.0.0.1:${subject.port}/v1/classify`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...bearer(bad) },
      body: JSON.stringify(body('a')),
      signal: gone.signal,
    }).catch(() => undefined);
    return { gone, left };
  });
  await delay(200);
  for (const { gone } of leaving) gone.abort();
  await Promise.all(leaving.map(({ left }) => left));
  const after = await subject.oneGood();
  report.note(`after 40 clients left, a good request took ${after.toFixed(0)} ms`);
  expect((await subject.metrics())('sida_engine_restarts_total')).toBe(0);
  report.atMost('a good request after clients left, of a usual one,', after / quiet, 20, '×');
  await delay(2_000);
  const metrics = await subject.metrics();
  expect(metrics('sida_tokenizer_texts_waiting')).toBe(0);
  await subject.recovered(report);
  await subject.stop();
});
