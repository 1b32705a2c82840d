// Clients that leave take their work with them.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { percentile, serverFault } from './subject.js';

async function took(run: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await run();
  return performance.now() - started;
}

/** As many long texts as a request takes; each of the requests keeps the tokenizer busy for a while. */
const LONG = { input: Array.from({ length: 32 }, () => 'a '.repeat(16_000)) };
const LEAVING = 40;

serverFault('cancels overtake the work of clients that left', {}, async (subject, report) => {
  const quiet = percentile(await subject.goodUntil(delay(3_000), 20), 0.5);
  const waiting = async () => (await subject.metrics())('sida_tokenizer_texts_waiting');
  const aloneMs = await took(() => subject.ask('/v1/tokenize', { method: 'POST', body: LONG }));

  /** As many clients ask and leave; the texts that waited, and the time until none did. */
  const leave = async () => {
    const gone = new AbortController();
    const left = Array.from({ length: LEAVING }, () =>
      fetch(`${subject.server.url}/v1/tokenize`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(LONG),
        signal: gone.signal,
      }).catch(() => undefined),
    );
    await subject.server.until(async () => (await waiting()) > (LEAVING * LONG.input.length) / 2);
    const behind = await waiting();
    gone.abort();
    const emptyMs = await took(async () => {
      await Promise.all(left);
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
});
