// Wall clocks jump under load, as by NTP or an administrator: that of the server, and those of the workers.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { ask } from '../support/http-client.js';
import { clusterFault } from './cluster.js';
import { keepAll } from './kept.js';
import { FaultShim } from './shim.js';
import { Traffic } from './traffic.js';

/** Seconds, there and back in both orders. */
const JUMPS = [50, -50, -50, 50, 7, -7];
const BACKLOG = 60;

for (const who of ['server', 'worker'] as const) {
  const shim = new FaultShim();
  const options = {
    around: <T>(other: string, start: () => Promise<T>) => (other === who ? shim.during(start) : start()),
    serverFlags: ['--log-level', 'info', '--rate-limit', '100000000', '--queue-bound', '256'],
    workerFlags: ['--log-level', 'info'],
  };
  clusterFault(`the clock of each ${who} jumps by up to a minute`, options, async (cluster, report) => {
    const { golden, subject, workers } = cluster;
    const { port } = subject;
    let shortestMs = Number.POSITIVE_INFINITY;
    let [longestMs, ahead] = [0, 0];
    await Traffic.around({ port, golden }, async (traffic) => {
      await traffic.goesOn(20);
      for (const seconds of JUMPS) {
        // The jobs that wait, run and have ended meet the jump.
        const kept = await keepAll(
          port,
          Array.from({ length: BACKLOG }, (_, i) => golden[i % golden.length]!),
        );
        shim.jump(seconds);
        ahead += seconds;
        await traffic.goesOn(20);
        // Node keeps the Date header for up to a second.
        await delay(1_100);
        const { status, text, headers } = await ask(port, '/v1/classify', {
          method: 'POST',
          body: golden[0]!.body,
        });
        expect(status, text).toBe(200);
        const wrongMs = Math.abs(Date.parse(headers.date!) - Date.now() - 1000 * ahead);
        if (who === 'server') expect(wrongMs).toBeLessThan(5_000);
        expect(Number(headers['x-queue-time'])).toBeGreaterThanOrEqual(0);
        expect(Number.parseInt(String(headers['x-ratelimit-reset-tokens']), 10)).toBeLessThanOrEqual(60);
        for (const { status, created_ms, started_ms, finished_ms } of await kept.ended()) {
          expect(status).toBe('completed');
          shortestMs = Math.min(shortestMs, started_ms - created_ms, finished_ms - started_ms);
          longestMs = Math.max(longestMs, finished_ms - created_ms);
        }
        // Every answer is still there when its time has not come.
        await delay(1_500);
        expect((await kept.ended()).length).toBe(BACKLOG);
      }
      await traffic.stop();
      traffic.tell(report);
    });
    report.note(`${JUMPS.length} jumps, ${JUMPS.length * BACKLOG} jobs waiting or running at them`);
    report.atLeast('shortest duration told', shortestMs, 0, 'ms');
    report.atMost('longest duration told', longestMs / 1000, 60, 's');
    const scrape = (await ask(port, '/metrics')).text;
    expect(scrape.split('\n').filter((line) => /^[^#]*_seconds\S* -/.test(line))).toEqual([]);
    const out = [subject.server, ...workers].map(({ output }) => output).join('\n');
    expect(out).not.toMatch(/"(\w*ms|\w*seconds)":-/i);
  });
}
