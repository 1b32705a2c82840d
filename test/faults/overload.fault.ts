// Ten times the load that the server can bear, whether it answers or not, for a minute.
import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { sst2 } from '../support/server-process.js';
import { aTimer } from './quiet.js';
import { percentile, serverFault } from './subject.js';

const BOUND = 32;
const DEADLINE_MS = 60_000;
const PEAK_SECONDS = 15;
const LOAD_SECONDS = 60;

const SENTENCES = sst2().map(({ text }) => text);
/** Requests of 32 sentences: large, so that the client is not what is overloaded. */
const BODIES = Array.from({ length: 25 }, (_, i) =>
  JSON.stringify({ task: 'sst2', input: SENTENCES.slice(32 * i, 32 * i + 32) }),
);
const args = ['--queue-bound', String(BOUND), '--deadline', `${DEADLINE_MS}ms`];

serverFault('overload at ten times the capacity', { args }, async (subject, report) => {
  /** The client shares the machine, so it costs as little as it can. It lets connections go before the server does. */
  const agent = new Agent({ keepAlive: true, timeout: 2_500 });
  const ask = async (number: number) => {
    const index = number % BODIES.length;
    const started = performance.now();
    const answer = await subject
      .ask('/v1/classify', { method: 'POST', body: BODIES[index], agent })
      .catch(() => undefined);
    const retryAfter = Number(answer?.headers['retry-after'] ?? 0);
    const data = JSON.stringify(answer?.json.data);
    return {
      index,
      status: answer?.status ?? 0,
      ended: performance.now(),
      ms: performance.now() - started,
      data,
      retryAfter,
    };
  };
  const waiting = async () => (await subject.metrics())('sida_queue_waiting_jobs');
  const golden: string[] = [];
  for (const number of BODIES.keys()) golden.push((await ask(number)).data);

  /** Answers a second of as many clients as the queue takes, each asking again at once. */
  let answered = 0;
  const peakEnd = performance.now() + PEAK_SECONDS * 1_000;
  const client = async (_: unknown, number: number) => {
    while (performance.now() < peakEnd) {
      expect((await ask(number)).status).toBe(200);
      if (performance.now() < peakEnd) answered += 1;
    }
  };
  await Promise.all(Array.from({ length: BOUND }, client));
  const capacity = answered / PEAK_SECONDS;

  const samples: ReturnType<typeof ask>[] = [];
  const began = performance.now();
  const end = began + LOAD_SECONDS * 1_000;
  let mostWaiting = 0;
  const watch = (async () => {
    for (; performance.now() < end; await delay(500)) mostWaiting = Math.max(mostWaiting, await waiting());
  })();
  for (; performance.now() < end; await delay(5)) {
    const due = ((performance.now() - began) / 1_000) * 10 * capacity;
    while (samples.length < due) samples.push(ask(samples.length));
  }
  await watch;
  const ended = performance.now();
  while ((await waiting()) > 0) await delay(100);
  await subject.oneGood();
  const recovery = (performance.now() - ended) / 1_000;

  const all = await Promise.all(samples);
  const of = (status: number) => all.filter((sample) => sample.status === status);
  const goodput = of(200).filter((sample) => sample.ended < end).length / LOAD_SECONDS / capacity;
  const times = of(200).map(({ ms }) => ms);
  const sent = all.length / LOAD_SECONDS;
  report.note(`capacity ${capacity.toFixed(1)} requests of 32 inputs a second, sent ${sent.toFixed(0)}`);
  report.note(`${times.length} answered, ${of(429).length} refused with 429`);
  report.note(`p50 ${percentile(times, 0.5).toFixed(0)} ms; at most ${mostWaiting} waited`);
  report.note(`${of(504).length} past their deadline, ${of(0).length} connections not taken`);
  expect(times.length + of(429).length + of(504).length + of(0).length).toBe(all.length);
  if (of(0).length > 0) {
    const dropped = 'sida_http_connection_errors_total{reason="too_many_connections"}';
    expect((await subject.metrics())(dropped)).toBeGreaterThanOrEqual(of(0).length);
  }
  expect(of(200).filter(({ index, data }) => data !== golden[index])).toEqual([]);
  expect(of(429).every(({ retryAfter }) => retryAfter >= 1)).toBe(true);
  report.atLeast('sent', sent / capacity, 9, '× the capacity');
  expect(mostWaiting).toBeLessThanOrEqual(BOUND);
  report.ratio('goodput', 100 * goodput, 80, 50, '% of the capacity');
  const timer = await aTimer((1.2 * DEADLINE_MS) / 1000, 'ms');
  report.withinTime('slowest answer', Math.max(...times), DEADLINE_MS, 'ms', timer);
  // What waited when the load ended is computed at the capacity.
  const backlog = { what: 'the time of a full queue', value: BOUND / capacity, times: 10 };
  report.withinTime('recovered in', recovery, 10, 's', backlog);
  agent.destroy();
});
