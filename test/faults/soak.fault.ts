// Ten minutes (SIDA_SOAK_MINUTES) of good requests, bad ones and cancelled jobs while the budget moves. Nothing grows.
import { setTimeout as delay } from 'node:timers/promises';
import { expect, vi } from 'vitest';
import { MALFORMED_BODIES } from '../support/malformed.js';
import { randomFrom } from '../support/malformed-requests.js';
import { RedisServer } from '../support/redis.js';
import { FAST } from './cluster.js';
import { type FaultReport, fault } from './fault.js';
import { goldenQuestions } from './golden.js';
import { aTimer } from './quiet.js';
import { footprint, MIB, Subject } from './subject.js';
import { Traffic } from './traffic.js';

const MINUTES = Number(process.env.SIDA_SOAK_MINUTES ?? 10);
const SEED = Number(process.env.SIDA_SOAK_SEED ?? Date.now() % 1_000_000);
/** Until heaps and caches have the size that the load gives them. */
const WARM_SHARE = 0.3;
const SAMPLE_MS = 1_000;
vi.setConfig({ testTimeout: (MINUTES + 5) * 60_000 });

/** Not those so large that the connection may end before they are sent. */
const BAD = MALFORMED_BODIES.filter(([, body]) => body.length < 64 * 1024);
const random = randomFrom(SEED);
let going = true;

/** Requests that must be refused, one in ten of all. */
async function sendBad(subject: Subject, traffic: Traffic): Promise<number> {
  let sent = 0;
  while (going) {
    if (sent >= traffic.accepted / 9) {
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
  const put = async (bytes: number) => {
    const body = { device: String(Math.round(bytes)) };
    const answer = await subject.ask('/admin/budget', { method: 'PUT', body });
    expect(answer.status, answer.text).toBe(200);
  };
  const { smallest_bytes: smallest, budget_bytes: largest } = await budget();
  for (; going; moved += 1) {
    await delay(500 + 2_500 * random());
    await put(smallest + random() * (largest - smallest));
    const { used_bytes, budget_bytes } = await budget();
    expect(used_bytes).toBeLessThanOrEqual(budget_bytes);
  }
  await put(largest);
  return moved;
}

/** Asks again and again whether the server lives; the longest time from one answer to the next. */
async function heartbeat(subject: Subject): Promise<number> {
  let [last, longestMs] = [performance.now(), 0];
  for (; going; await delay(200)) {
    const answer = await subject.ask('/health/live').catch(() => undefined);
    const now = performance.now();
    longestMs = Math.max(longestMs, now - last);
    if (answer?.status === 200) last = now;
  }
  return longestMs;
}

/** Least squares: what the slope of `values` over `times` is at least, with 97.5 % confidence. */
function leastSlope(times: number[], values: number[]): number {
  const count = times.length;
  const mean = (all: number[]) => all.reduce((sum, each) => sum + each, 0) / all.length;
  const [time, value] = [mean(times), mean(values)];
  const spread = times.reduce((sum, each) => sum + (each - time) ** 2, 0);
  const slope = times.reduce((sum, each, i) => sum + (each - time) * (values[i]! - value), 0) / spread;
  const rests = values.map((each, i) => each - value - slope * (times[i]! - time));
  const variance = rests.reduce((sum, rest) => sum + rest ** 2, 0) / (count - 2);
  // Neighbours resemble each other, so the values count as fewer than they are.
  const next = rests.slice(1).reduce((sum, rest, i) => sum + rest * rests[i]!, 0);
  const likeness = Math.min(0.95, Math.max(0, next / (variance * count || 1)));
  const error = Math.sqrt((variance / spread) * ((1 + likeness) / (1 - likeness)));
  return Math.max(0, slope - 2 * error);
}

async function soak(report: FaultReport, subject: Subject, traffic: Traffic): Promise<void> {
  const { server } = subject;
  const [engine] = server.enginePids();
  const others = Promise.all([sendBad(subject, traffic), moveBudget(subject), heartbeat(subject)]);
  // Its failure is told below, even if another comes first.
  others.catch(() => undefined);
  const hours: number[] = [];
  const samples = { server: [] as number[], engine: [] as number[], descriptors: [] as number[] };
  const began = performance.now();
  for (let next = began; next < began + MINUTES * 60_000; next += SAMPLE_MS) {
    await delay(Math.max(0, next - performance.now()));
    expect(server.enginePids(), `the engine after ${Math.round((next - began) / 1000)} s`).toEqual([engine]);
    if (performance.now() < began + WARM_SHARE * MINUTES * 60_000) continue;
    hours.push((performance.now() - began) / 3_600_000);
    samples.server.push(footprint(server.child.pid!).rssBytes / MIB);
    samples.engine.push(footprint(engine!).rssBytes / MIB);
    samples.descriptors.push(subject.descriptors());
  }
  going = false;
  const [refused, moves, silentMs] = await others;
  await traffic.stop();
  report.note(`${refused} bad requests refused, budget moved ${moves} times`);
  traffic.tell(report);
  const of = await subject.metrics();
  expect(of('sida_device_peak_bytes')).toBeGreaterThan(0);
  expect(of('sida_engine_restarts_total')).toBe(0);
  const time = hours.at(-1)! - hours[0]!;
  for (const who of ['server', 'engine'] as const) {
    const least = leastSlope(hours, samples[who]);
    report.note(`memory of the ${who} from ${Math.min(...samples[who]).toFixed(0)} MiB`);
    // In less than an hour the end of warming up shows as growth: what counts there is the memory itself.
    if (time > 0.9) report.atMost(`growth of the ${who} that is no chance`, least, 1, 'MiB/h');
    else report.atMost(`growth of the ${who} that is no chance`, least * time, 8, 'MiB');
  }
  const descriptors = leastSlope(hours, samples.descriptors) * time;
  report.atMost('descriptors grown that are no chance', descriptors, 16, '');
  report.withinTime('longest without a sign of life', silentMs / 1000, 2, 's', await aTimer(4));
}

fault('soak: good and bad requests, cancels, a moving budget', async (report) => {
  report.note(`${MINUTES} minutes, seed ${SEED}`);
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
