// Between server, workers and Redis: a slow way, resets, connections that fall silent, writes of one byte.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect } from 'vitest';
import { randomFrom } from '../support/malformed-requests.js';
import { SLOW_MS, TcpProxy } from '../support/tcp-proxy.js';
import { Cluster } from './cluster.js';
import { type FaultReport, fault } from './fault.js';
import { aTimer } from './quiet.js';
import { RedisFigures } from './redis-figures.js';
import { Traffic } from './traffic.js';

const FAULT_MS = 15_000;

let proxy: TcpProxy;
let cluster: Cluster;
beforeAll(async () => {
  cluster = await Cluster.start({
    serverFlags: ['--deadline', '120s'],
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

interface Told {
  outages: number;
  slowestSeconds: number;
}

/** Load before, while and after `disturb` does what the fault is; `told`: what the metrics must have told of it. */
function underLoad(
  report: FaultReport,
  disturb: (traffic: Traffic) => Promise<void>,
  told: (figures: Told) => void = () => undefined,
): Promise<void> {
  const { subject, golden } = cluster;
  return Traffic.around({ port: subject.port, golden }, async (traffic) => {
    await delay(2_000);
    const figures = await RedisFigures.begin(subject);
    let over = false;
    const looks = (async () => {
      while (!over) {
        await figures.look();
        await delay(100);
      }
    })();
    await disturb(traffic).finally(() => {
      over = true;
    });
    await looks;
    proxy.weather = 'clear';
    const resumedMs = await traffic.goesOn(10);
    const stopping = performance.now();
    await traffic.stop();
    const endedMs = performance.now() - stopping;
    traffic.tell(report);
    const { slowestSeconds } = figures;
    report.note(`Redis took ${(1000 * slowestSeconds).toFixed(0)} ms at most in the metrics`);
    told({ outages: await figures.end(report, traffic), slowestSeconds });
    const timer = await aTimer(40);
    report.withinTime('longest without an answer', traffic.longestGapMs / 1000, 25, 's', timer);
    report.withinTime('slowest refusal', traffic.slowestRefusalMs / 1000, 1.1, 's', { ...timer, times: 2 });
    report.withinTime('resumed after', resumedMs / 1000, 25, 's', timer);
    report.withinTime('all ended after', endedMs / 1000, 30, 's', { ...timer, times: 50 });
    await cluster.recovered(report);
  });
}

const slow = (told: Told) => expect(told.slowestSeconds).toBeGreaterThanOrEqual(SLOW_MS / 1000);
const lost = (told: Told) => expect(told.outages).toBeGreaterThan(0);

fault('F8', `${SLOW_MS} ms more on the way to Redis`, (report) =>
  underLoad(
    report,
    async () => {
      proxy.weather = 'slow';
      await delay(FAULT_MS);
    },
    slow,
  ),
);

fault('F8', 'writes of one byte to and from Redis', (report) =>
  underLoad(report, async (traffic) => {
    proxy.weather = 'drip';
    const before = traffic.completed;
    await delay(FAULT_MS);
    expect(traffic.completed).toBeGreaterThan(before);
  }),
);

fault('F8', 'connections to Redis reset', (report) =>
  underLoad(
    report,
    async () => {
      const random = randomFrom(8);
      const end = performance.now() + FAULT_MS;
      let resets = 0;
      while (performance.now() < end) {
        proxy.reset(Math.floor(random() * proxy.connections));
        resets += 1;
        await delay(20 + 480 * random());
      }
      report.note(`${resets} resets`);
    },
    lost,
  ),
);

fault('F8', 'connections to Redis half-open', (report) =>
  underLoad(
    report,
    async () => {
      report.note(`${proxy.silence()} connections fell silent`);
      await delay(FAULT_MS);
    },
    lost,
  ),
);
