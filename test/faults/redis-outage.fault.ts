// Redis goes away under load in three ways, for 2, 15 and 60 seconds (SIDA_OUTAGE_SECONDS=2 for a short run). Then the
// network to it is slow, resets connections, lets them fall silent, or passes single bytes.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, vi } from 'vitest';
import { eventually } from '../support/eventually.js';
import { randomFrom } from '../support/malformed-requests.js';
import { SLOW_MS, TcpProxy } from '../support/tcp-proxy.js';
import { Cluster } from './cluster.js';
import { type FaultReport, fault } from './fault.js';
import { aTimer } from './quiet.js';
import { Traffic } from './traffic.js';

const SECONDS = (process.env.SIDA_OUTAGE_SECONDS ?? '2,15,60').split(',').map(Number);
const NETWORK_MS = 15_000;
vi.setConfig({ testTimeout: 900_000 });

let cluster: Cluster;
// Who waits when the longest outage begins waits it out.
const serverFlags = ['--deadline', '120s'];

/** Sums over all series of a name with these labels. */
async function figures(): Promise<(name: string, ...labels: string[]) => number> {
  const lines = (await cluster.subject.ask('/metrics')).text.split('\n');
  return (name, ...labels) =>
    lines
      .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
      .filter((line) => labels.every((label) => line.includes(label)))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
const refusedIn = (of: Awaited<ReturnType<typeof figures>>) =>
  of('sida_http_requests_total', 'method="POST"', 'status="503"');

/** What readiness and metrics tell while `work` goes on. */
async function watching(work: Promise<void>) {
  const seen = { readies: 0, ups: 0, slowestSeconds: 0 };
  let over = false;
  const ended = work.finally(() => {
    over = true;
  });
  while (!over) {
    const { status, json } = await cluster.subject.ask('/health/ready');
    if (status === 200) seen.readies += 1;
    else expect(json.phase).toBe('queue_unavailable');
    const of = await figures();
    seen.ups += of('sida_queue_up');
    seen.slowestSeconds = Math.max(seen.slowestSeconds, of('sida_queue_redis_seconds'));
    await delay(100);
  }
  await ended;
  return seen;
}

/**
 * Load before, while and after `disturb` does what the fault is. With `answers`, some are given meanwhile. Returns the
 * outages that the metrics told of.
 */
async function underLoad(
  report: FaultReport,
  disturb: (traffic: Traffic) => Promise<void>,
  answers = true,
): Promise<number> {
  const { subject, golden } = cluster;
  let outages = 0;
  await Traffic.around({ port: subject.port, golden }, async (traffic) => {
    await delay(2_000);
    const before = await figures();
    expect(before('sida_queue_up')).toBe(1);
    await disturb(traffic);
    const resumedMs = await traffic.goesOn(10);
    await delay(2_000);
    const stopping = performance.now();
    await traffic.stop();
    const endedMs = performance.now() - stopping;
    traffic.tell(report);
    // The server looks at the queue twice a second.
    await eventually(async () => {
      const of = await figures();
      return of('sida_queue_waiting_jobs') + of('sida_queue_active_jobs') === 0;
    }, 'a queue without jobs');
    const after = await figures();
    expect(after('sida_queue_up')).toBe(1);
    // Clients ask again under their keys, and do not book those refusals.
    const booked = traffic.refusals.get('503 not_ready') ?? 0;
    expect(refusedIn(after) - refusedIn(before)).toBeGreaterThanOrEqual(booked);
    outages = after('sida_queue_outages_total') - before('sida_queue_outages_total');
    report.note(`the metrics tell of ${outages} outages`);
    const timer = await aTimer(40);
    report.withinTime('slowest refusal', traffic.slowestRefusalMs / 1000, 1.1, 's', { ...timer, times: 2 });
    report.withinTime('resumed after', resumedMs / 1000, 25, 's', timer);
    report.withinTime('all ended after', endedMs / 1000, 30, 's', { ...timer, times: 50 });
    const gap = traffic.longestGapMs / 1000;
    if (answers) report.withinTime('longest without an answer', gap, 25, 's', timer);
    await cluster.recovered(report);
  });
  return outages;
}

describe('Redis', () => {
  beforeAll(async () => {
    cluster = await Cluster.start({ serverFlags });
  });
  afterAll(() => cluster.end());

  for (const signal of ['SIGTERM', 'SIGKILL', 'SIGSTOP'] as const) {
    for (const seconds of SECONDS) {
      fault(`Redis gets ${signal}, ${String(seconds).padStart(2, '0')} s`, async (report) => {
        const { subject, redis, golden } = cluster;
        const disturb = async () => {
          if (signal === 'SIGSTOP') redis.freeze();
          else await redis.down(signal);
          const away = performance.now();
          await subject.server.until(async () => (await subject.ask('/health/ready')).status === 503);
          const unreadySeconds = (performance.now() - away) / 1000;
          // Every client may be waiting for an answer just now: one that asks anew is refused.
          const { path, body } = golden[0]!;
          const refusal = await subject.ask(path, { method: 'POST', body });
          expect([refusal.status, refusal.json.error.code]).toEqual([503, 'not_ready']);
          const { readies, ups } = await watching(delay(away + seconds * 1000 - performance.now()));
          expect([readies, ups], 'times ready, and up in the metrics').toEqual([0, 0]);
          if (signal === 'SIGSTOP') redis.thaw();
          else await redis.up();
          report.withinTime('not ready after', unreadySeconds, 2, 's', await aTimer(3));
        };
        expect(await underLoad(report, disturb, false)).toBeGreaterThan(0);
      });
    }
  }
});

describe('the network to Redis', () => {
  let proxy: TcpProxy;
  beforeAll(async () => {
    cluster = await Cluster.start({
      serverFlags,
      through: async (redis) => {
        proxy = await TcpProxy.to(redis.port);
        return `redis://127.0.0.1:${proxy.port}`;
      },
    });
  });
  afterAll(async () => {
    await cluster.end();
    await proxy.close();
  });

  for (const [weather, what] of [
    ['slow', `${SLOW_MS} ms more on the way to Redis`],
    ['drip', 'writes of one byte to and from Redis'],
  ] as const) {
    fault(what, async (report) => {
      await underLoad(report, async (traffic) => {
        proxy.weather = weather;
        const before = traffic.completed;
        const { slowestSeconds } = await watching(delay(NETWORK_MS));
        proxy.weather = 'clear';
        report.note(`Redis took ${(1000 * slowestSeconds).toFixed(0)} ms at most in the metrics`);
        expect(traffic.completed).toBeGreaterThan(before);
        if (weather === 'slow') expect(slowestSeconds).toBeGreaterThanOrEqual(SLOW_MS / 1000);
      });
    });
  }

  fault('connections to Redis reset', async (report) => {
    const outages = await underLoad(report, async () => {
      const random = randomFrom(8);
      const end = performance.now() + NETWORK_MS;
      let resets = 0;
      for (; performance.now() < end; resets += 1) {
        proxy.reset(Math.floor(random() * proxy.connections));
        await delay(20 + 480 * random());
      }
      report.note(`${resets} resets`);
    });
    expect(outages).toBeGreaterThan(0);
  });

  fault('connections to Redis half-open', async (report) => {
    const outages = await underLoad(report, async () => {
      report.note(`${proxy.silence()} connections fell silent`);
      await delay(NETWORK_MS);
    });
    expect(outages).toBeGreaterThan(0);
  });
});
