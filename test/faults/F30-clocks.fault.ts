// Wall clocks jump under load, as by NTP or an administrator: those of the server and of the workers.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { ask } from '../support/http-client.js';
import { inLedger } from '../support/ledger-look.js';
import { WallClock } from './clock.js';
import { Cluster, type Who } from './cluster.js';
import { type FaultReport, fault } from './fault.js';
import { keepAll } from './kept.js';
import { Traffic } from './traffic.js';

/** Seconds. The clocks of all machines are within a minute of each other. */
const JUMPS = [45, -45, -45, 45, 7];
const BACKLOG = 60;

const CASES: [id: string, who: Who, what: string][] = [
  ['F30', 'server', 'the clock of the server jumps'],
  ['F30', 'worker', 'the clock of the workers jumps'],
];

for (const [id, who, what] of CASES) {
  fault(id, `${what} by less than a minute`, async (report) => {
    const clock = WallClock.build();
    if (clock === undefined) throw new Error('the fault needs a C compiler');
    const cluster = await Cluster.start({
      around: (other, start) => (other === who ? clock.during(start) : start()),
      serverFlags: ['--log-level', 'info', '--rate-limit', '100000000', '--queue-bound', '256'],
      workerFlags: ['--log-level', 'info'],
    });
    try {
      const { port } = cluster.subject;
      await Traffic.around({ port, golden: cluster.golden }, (traffic) =>
        jumps(report, cluster, clock, traffic, who),
      );
      const out = [cluster.subject.server, ...cluster.workers].map(({ output }) => output).join('\n');
      expect(out).not.toMatch(/"(\w*ms|\w*seconds)":-/i);
      await cluster.recovered(report);
    } finally {
      await cluster.end();
      clock.remove();
    }
  });
}

/** Unix ms as Redis sees them. */
const timeOf = ({ redis }: Cluster) => redis.use(async (client) => 1000 * Number((await client.time())[0]));

async function jumps(report: FaultReport, cluster: Cluster, clock: WallClock, traffic: Traffic, who: Who) {
  const { port } = cluster.subject;
  await traffic.goesOn(20);
  let shortestMs = Number.POSITIVE_INFINITY;
  let longestMs = 0;
  let ahead = 0;
  for (const seconds of JUMPS) {
    // The jobs that wait, run and have ended meet the jump.
    const kept = await keepAll(
      { port },
      Array.from({ length: BACKLOG }, (_, i) => cluster.golden[i % 56]!),
    );
    clock.jump(seconds);
    ahead += seconds;
    await traffic.goesOn(20);
    // Node keeps the Date header for up to a second.
    await delay(1_100);
    const answer = await ask(port, '/v1/classify', { method: 'POST', body: cluster.golden[0]!.body });
    expect(answer.status, answer.text).toBe(200);
    const shown = { redis: await timeOf(cluster), server: Date.parse(answer.headers.date!) };
    if (who !== 'worker') expect(Math.abs(shown[who] - Date.now() - 1000 * ahead)).toBeLessThan(5_000);
    expect(Number(answer.headers['x-queue-time'])).toBeGreaterThanOrEqual(0);
    expect(Number.parseInt(String(answer.headers['x-ratelimit-reset-tokens']), 10)).toBeLessThanOrEqual(60);
    for (const { status, error, created_ms, started_ms, finished_ms } of await kept.ended()) {
      expect([status, error ?? null]).toEqual(['completed', null]);
      shortestMs = Math.min(shortestMs, started_ms - created_ms, finished_ms - started_ms);
      longestMs = Math.max(longestMs, finished_ms - created_ms);
    }
    // Every answer is still there when its time has not come.
    await delay(1_500);
    expect((await kept.ended()).length).toBe(BACKLOG);
  }
  await traffic.stop();
  await eventually(async () => (await inLedger(cluster.redis, 'leases')) === 0, 'no job in the ledger');
  expect(await inLedger(cluster.redis, 'queued')).toBe(0);
  const scrape = (await ask(port, '/metrics')).text;
  expect(scrape.split('\n').filter((line) => /^[^#]*_seconds\S* -/.test(line))).toEqual([]);
  report.note(`${JUMPS.length} jumps, ${JUMPS.length * BACKLOG} jobs waiting or running at them`);
  report.atLeast('shortest duration told', shortestMs, 0, 'ms');
  report.atMost('longest duration told', longestMs / 1000, 60, 's');
  traffic.tell(report);
}
