// Ten minutes (SIDA_SOAK_MINUTES) of good requests, bad ones and cancelled jobs while the budget moves; nothing grows.
import { setTimeout as delay } from 'node:timers/promises';
import { expect, vi } from 'vitest';
import { MALFORMED_BODIES } from '../support/malformed.js';
import { randomFrom } from '../support/malformed-requests.js';
import { RedisServer } from '../support/redis.js';
import { FAST } from './cluster.js';
import { type FaultReport, fault } from './fault.js';
import { goldenQuestions } from './golden.js';
import { Heartbeat } from './heartbeat.js';
import { slopeOf } from './slope.js';
import { footprint, Subject } from './subject.js';
import { Traffic } from './traffic.js';

const MINUTES = Number(process.env.SIDA_SOAK_MINUTES ?? 10);
const SEED = Number(process.env.SIDA_SOAK_SEED ?? Date.now() % 1_000_000);
/** Until heaps and caches have the size that the load gives them. */
const WARM_SHARE = 0.3;
const SAMPLE_MS = 1_000;
vi.setConfig({ testTimeout: (MINUTES + 5) * 60_000 });

/** Not those so large that the connection may end before they are sent, and not the last, which takes another limit. */
const BAD = MALFORMED_BODIES.slice(0, -1).filter(([, body]) => body.length < 64 * 1024);

const random = randomFrom(SEED);
let going = true;

/** Requests that must be refused, one in ten of all. */
async function sendBad(subject: Subject, traffic: Traffic): Promise<number> {
  let sent = 0;
  while (going) {
    const due = sent < traffic.accepted / 9;
    if (!due) {
      await delay(20);
      continue;
    }
    const [what, body, status] = BAD[sent % BAD.length]!;
    const answer = await subject.ask('/v1/classify', { method: 'POST', body });
    expect(answer.status, what).toBe(status);
    sent += 1;
  }
  return sent;
}

/** Between the smallest budget that works and a full one; never more in use than it allows. */
async function moveBudget(subject: Subject): Promise<number> {
  let moved = 0;
  const budget = async () => (await subject.ask('/admin/budget')).json.device;
  const { smallest_bytes: smallest, budget_bytes: largest } = await budget();
  while (going) {
    await delay(500 + 2_500 * random());
    const device = String(Math.round(smallest + random() * (largest - smallest)));
    const answer = await subject.ask('/admin/budget', { method: 'PUT', body: { device } });
    expect(answer.status, answer.text).toBe(200);
    const { used_bytes, budget_bytes } = await budget();
    expect(used_bytes).toBeLessThanOrEqual(budget_bytes);
    moved += 1;
  }
  await subject.ask('/admin/budget', { method: 'PUT', body: { device: String(largest) } });
  return moved;
}

/** Garbage comes and goes; what is held shows where there is least of it. */
function lowest(values: number[], from: number, to: number): number {
  return Math.min(...values.slice(Math.floor(from * values.length), Math.ceil(to * values.length)));
}

async function soak(report: FaultReport, subject: Subject, traffic: Traffic): Promise<void> {
  const { port, server } = subject;
  const [engine] = server.enginePids();
  const heartbeat = new Heartbeat(port);
  const others = Promise.all([sendBad(subject, traffic), moveBudget(subject)]);
  const samples = { hours: [] as number[], server: [] as number[], engine: [] as number[] };
  const descriptors: number[] = [];
  const began = performance.now();
  for (let next = began; next < began + MINUTES * 60_000; next += SAMPLE_MS) {
    await delay(Math.max(0, next - performance.now()));
    if (performance.now() < began + WARM_SHARE * MINUTES * 60_000) continue;
    samples.hours.push((performance.now() - began) / 3_600_000);
    samples.server.push(footprint(server.child.pid!).rssBytes / 1024 ** 2);
    samples.engine.push(footprint(engine!).rssBytes / 1024 ** 2);
    descriptors.push(subject.descriptors());
  }
  going = false;
  const [bad, moves] = await others;
  await traffic.stop();
  await heartbeat.stop();
  report.note(`${bad} bad requests refused`);
  report.note(`budget moved ${moves} times`);
  traffic.tell(report);
  const of = await subject.metrics();
  expect(of('sida_device_peak_bytes')).toBeGreaterThan(0);
  expect(of('sida_engine_restarts_total')).toBe(0);
  for (const who of ['server', 'engine'] as const) {
    const { slope, least } = slopeOf(samples.hours, samples[who]);
    const thirds = [0, 1, 2].map((third) => lowest(samples[who], third / 3, (third + 1) / 3).toFixed(0));
    report.note(`memory of the ${who} ${slope.toFixed(0)} MiB/h, surely at least ${least.toFixed(0)}`);
    report.note(`lowest of its thirds ${thirds.join(', ')} MiB`);
    report.atMost(`growth of the ${who} that is no chance`, Math.max(0, least), 1, 'MiB/h');
  }
  report.note(`at most ${Math.max(...descriptors)} descriptors more than when idle`);
  report.atMost('longest without a sign of life', heartbeat.longestMs / 1000, 2, 's');
}

fault('F34', 'soak: good and bad requests, cancels, a moving budget', async (report) => {
  report.note(`${MINUTES} minutes`);
  report.note(`seed ${SEED}`);
  const golden = await goldenQuestions();
  const redis = await RedisServer.start();
  const subject = await Subject.start('--redis', redis.url, '--threads', '1', ...FAST);
  // One in ten of all requests is cancelled: two in nine of the jobs, which are half of the good ones.
  const options = { port: subject.port, golden, seed: SEED, cancels: 0.22, pauseMs: 100 };
  try {
    await Traffic.around(options, (traffic) => soak(report, subject, traffic));
    await subject.recovered(report);
  } finally {
    going = false;
    await subject.stop();
    await redis.end();
  }
});
