// Redis goes away under load in three ways, for 2, 15 and 60 seconds (SIDA_OUTAGE_SECONDS=2 for a short run).
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, vi } from 'vitest';
import { Cluster } from './cluster.js';
import { type FaultReport, fault } from './fault.js';
import { aTimer } from './quiet.js';
import { RedisFigures } from './redis-figures.js';
import { Traffic } from './traffic.js';

const SECONDS = (process.env.SIDA_OUTAGE_SECONDS ?? '2,15,60').split(',').map(Number);
vi.setConfig({ testTimeout: 900_000 });

let cluster: Cluster;
beforeAll(async () => {
  // Who waits when the longest outage begins waits it out.
  cluster = await Cluster.start({ serverFlags: ['--deadline', '120s'] });
});
afterAll(() => cluster.end());

for (const signal of ['SIGTERM', 'SIGKILL', 'SIGSTOP'] as const) {
  for (const seconds of SECONDS) {
    fault('F4', `Redis gets ${signal}, ${String(seconds).padStart(2, '0')} s`, (report) => {
      const { port } = cluster.subject;
      return Traffic.around({ port, golden: cluster.golden }, (traffic) =>
        outage(report, traffic, signal, seconds),
      );
    });
  }
}

async function outage(
  report: FaultReport,
  traffic: Traffic,
  signal: 'SIGTERM' | 'SIGKILL' | 'SIGSTOP',
  seconds: number,
): Promise<void> {
  const { subject, redis } = cluster;
  await delay(2_000);
  const figures = await RedisFigures.begin(subject);
  if (signal === 'SIGSTOP') redis.freeze();
  else await redis.down(signal);
  const away = performance.now();
  await subject.server.until(async () => (await subject.ask('/health/ready')).status === 503);
  const unreadyMs = performance.now() - away;
  // Every client may be waiting for an answer just now: one that asks anew is refused.
  const { path, body } = cluster.golden[0]!;
  const refusal = await subject.ask(path, { method: 'POST', body });
  expect([refusal.status, refusal.json.error.code]).toEqual([503, 'not_ready']);
  let readyMeanwhile = 0;
  while (performance.now() < away + seconds * 1000) {
    const { status, json } = await subject.ask('/health/ready');
    if (status === 200) readyMeanwhile += 1;
    else expect(json.phase).toBe('queue_unavailable');
    await figures.look();
    await delay(100);
  }
  if (signal === 'SIGSTOP') redis.thaw();
  else await redis.up();
  const resumedMs = await traffic.goesOn();
  await delay(2_000);
  const stopping = performance.now();
  await traffic.stop();
  traffic.tell(report);
  expect(readyMeanwhile, 'times ready without Redis').toBe(0);
  expect(figures.looks.ups, 'times up in the metrics without Redis').toBe(0);
  expect(await figures.end(report, traffic)).toBeGreaterThan(0);
  const endedMs = performance.now() - stopping;
  const timer = await aTimer(3);
  report.withinTime('not ready after', unreadyMs / 1000, 2, 's', timer);
  report.withinTime('slowest refusal', traffic.slowestRefusalMs / 1000, 1.1, 's', { ...timer, times: 2 });
  report.withinTime('resumed after', resumedMs / 1000, 25, 's', { ...timer, times: 40 });
  report.withinTime('all ended after', endedMs / 1000, 30, 's', { ...timer, times: 50 });
  await cluster.recovered(report);
}
