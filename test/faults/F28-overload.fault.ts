// Ten times the load that the server can bear, whether it answers or not, for a minute.
import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { LIMITS } from '../../src/server/limits.js';
import { sst2 } from '../support/server-process.js';
import { fault } from './fault.js';
import { aTimer } from './quiet.js';
import { percentile, Subject } from './subject.js';

const BOUND = 32;
const DEADLINE_MS = 60_000;
const PEAK_SECONDS = 15;
const LOAD_SECONDS = 60;

let subject: Subject;
/** The client shares the machine, so it costs as little as it can. It lets connections go before the server does. */
const agent = new Agent({ keepAlive: true, timeout: LIMITS.keepAliveTimeoutMs / 2 });
beforeAll(async () => {
  subject = await Subject.start('--queue-bound', String(BOUND), '--deadline', `${DEADLINE_MS}ms`);
});
afterAll(() => subject.stop());

const SENTENCES = sst2().map(({ text }) => text);
/** Requests of 32 sentences: large, so that the client is not what is overloaded. */
const BODIES = Array.from({ length: 25 }, (_, i) =>
  JSON.stringify({ task: 'sst2', input: SENTENCES.slice(32 * i, 32 * i + 32) }),
);
const golden: string[] = [];

interface Sample {
  status: number;
  ms: number;
  right: boolean;
  retryAfter: number;
}

async function one(number: number): Promise<Sample> {
  const index = number % BODIES.length;
  const started = performance.now();
  const answer = await subject
    .ask('/v1/classify', { method: 'POST', body: BODIES[index], agent })
    .catch(() => undefined);
  return {
    status: answer?.status ?? 0,
    ms: performance.now() - started,
    right: answer?.status !== 200 || JSON.stringify(answer.json.data) === golden[index],
    retryAfter: Number(answer?.headers['retry-after'] ?? 0),
  };
}

/** Answers a second of as many clients as the queue takes, each asking again at once. */
async function peak(): Promise<number> {
  const end = performance.now() + PEAK_SECONDS * 1_000;
  let [answered, next] = [0, 0];
  const client = async () => {
    while (performance.now() < end) {
      next += 1;
      expect((await one(next)).status).toBe(200);
      if (performance.now() < end) answered += 1;
    }
  };
  await Promise.all(Array.from({ length: BOUND }, client));
  return answered / PEAK_SECONDS;
}

fault('F28', 'overload at ten times the capacity', async (report) => {
  for (const body of BODIES) {
    const { json } = await subject.ask('/v1/classify', { method: 'POST', body });
    golden.push(JSON.stringify(json.data));
  }
  const capacity = await peak();
  const rate = 10 * capacity;

  const samples: Promise<Sample>[] = [];
  let good = 0;
  let mostWaiting = 0;
  const began = performance.now();
  const end = began + LOAD_SECONDS * 1_000;
  const watch = (async () => {
    while (performance.now() < end) {
      mostWaiting = Math.max(mostWaiting, (await subject.metrics())('sida_queue_waiting_jobs'));
      await delay(500);
    }
  })();
  while (performance.now() < end) {
    const due = ((performance.now() - began) / 1_000) * rate;
    while (samples.length < due) {
      samples.push(
        one(samples.length).then((sample) => {
          if (sample.status === 200 && performance.now() < end) good += 1;
          return sample;
        }),
      );
    }
    await delay(5);
  }
  await watch;
  const ended = performance.now();
  while ((await subject.metrics())('sida_queue_waiting_jobs') > 0) await delay(100);
  await subject.oneGood();
  const recovery = (performance.now() - ended) / 1_000;

  const all = await Promise.all(samples);
  const of = (status: number) => all.filter((sample) => sample.status === status);
  const goodput = good / LOAD_SECONDS / capacity;
  const slowest = Math.max(...of(200).map(({ ms }) => ms));
  report.note(
    `capacity ${capacity.toFixed(1)} requests of 32 inputs a second, sent ${(all.length / LOAD_SECONDS).toFixed(0)}`,
  );
  report.note(`${of(200).length} answered, ${of(429).length} refused with 429`);
  report.note(
    `p50 ${percentile(
      of(200).map(({ ms }) => ms),
      0.5,
    ).toFixed(0)} ms`,
  );
  report.note(`at most ${mostWaiting} waited`);
  report.note(`${of(504).length} past their deadline, ${of(0).length} connections not taken`);
  expect(of(200).length + of(429).length + of(504).length + of(0).length).toBe(all.length);
  if (of(0).length > 0) {
    const dropped = 'sida_http_connection_errors_total{reason="too_many_connections"}';
    expect((await subject.metrics())(dropped)).toBeGreaterThanOrEqual(of(0).length);
  }
  expect(all.filter(({ right }) => !right)).toEqual([]);
  expect(of(429).every(({ retryAfter }) => retryAfter >= 1)).toBe(true);
  report.atLeast('sent', all.length / LOAD_SECONDS / capacity, 9, '× the capacity');
  expect(mostWaiting).toBeLessThanOrEqual(BOUND);
  report.ratio('goodput', 100 * goodput, 80, 50, '% of the capacity');
  const timer = await aTimer((1.2 * DEADLINE_MS) / 1000, 'ms');
  report.withinTime('slowest answer', slowest, DEADLINE_MS, 'ms', timer);
  // What waited when the load ended is computed at the capacity.
  const backlog = { what: 'the time of a full queue', value: BOUND / capacity, times: 10 };
  report.withinTime('recovered in', recovery, 10, 's', backlog);
  agent.destroy();
  await subject.recovered(report);
});
