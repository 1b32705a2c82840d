// Labels that are too long to score: refused at once and charged. Clients that leave take their work with them.
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

  await subject.recovered(report);
  await subject.stop();
});

/** As many long texts as a request takes; each of the requests keeps the tokenizer busy for a while. */
const LONG = { input: Array.from({ length: 32 }, () => 'a '.repeat(16_000)) };
const LEAVING = 40;

fault('F39', 'cancels overtake the work of clients that left', async (report) => {
  const subject = await Subject.start();
  const quiet = percentile(await subject.goodUntil(delay(3_000), 20), 0.5);
  const waiting = async () => (await subject.metrics())('sida_tokenizer_texts_waiting');
  const aloneMs = await took(() => subject.ask('/v1/tokenize', { method: 'POST', body: LONG }));

  /** As many clients ask and leave; the texts that waited, and the time until none did. */
  const leave = async () => {
    const leaving = Array.from({ length: LEAVING }, () => {
      const gone = new AbortController();
      const left = fetch(`http://127.0.0.1:${subject.port}/v1/tokenize`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(LONG),
        signal: gone.signal,
      }).catch(() => undefined);
      return { gone, left };
    });
    await subject.server.until(async () => (await waiting()) > (LEAVING * LONG.input.length) / 2);
    const behind = await waiting();
    for (const { gone } of leaving) gone.abort();
    const emptyMs = await took(async () => {
      await Promise.all(leaving.map(({ left }) => left));
      await subject.server.until(async () => (await waiting()) === 0);
    });
    return { behind, emptyMs };
  };
  // The heap grows once for bodies of 40 MiB, in steps. What each round held would show after more of them.
  for (let round = 0; round < 3; round += 1) await leave();
  await subject.settle();
  for (let round = 0; round < 3; round += 1) await leave();
  const { behind, emptyMs } = await leave();
  const backlogMs = (behind / LONG.input.length) * aloneMs;
  const after = await subject.oneGood();

  report.note(`${LEAVING} clients left, and ${behind} texts waited, which take ${Math.round(backlogMs)} ms`);
  report.note(`none waited ${emptyMs.toFixed(0)} ms later; then a good request took ${after.toFixed(0)} ms`);
  expect(behind).toBeGreaterThan(0);
  // The figures of the engine come once a second.
  report.atMost('until no text waited, of the time of the texts,', emptyMs / backlogMs, 0.5, '×');
  report.atMost('a good request after clients left, of a usual one,', after / quiet, 20, '×');
  expect((await subject.metrics())('sida_engine_restarts_total')).toBe(0);
  await subject.recovered(report);
  await subject.stop();
});

async function took(run: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await run();
  return performance.now() - started;
}
