// Redis reaches its maxmemory under load, with jobs waiting, and gets room later.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { jobsIn } from '../support/queue-look.js';
import { clusterFault } from './cluster.js';
import { keep, keepAll } from './kept.js';
import { Traffic } from './traffic.js';

const FULL_MS = 10_000;
const BACKLOG = 60;

const serverFlags = ['--queue-bound', '256', '--deadline', '120s'];

clusterFault('Redis full, without eviction', { serverFlags }, async (cluster, report) => {
  const { subject, redis, golden, workers } = cluster;
  const { port } = subject;
  const limit = (bytes: number) => redis.use((client) => client.config('SET', 'maxmemory', String(bytes)));
  const pids = workers.flatMap((worker) => worker.enginePids());
  await Traffic.around({ port, golden }, async (traffic) => {
    await traffic.goesOn(20);
    const waiting = Array.from({ length: BACKLOG }, (_, i) => golden[i % golden.length]!);
    const backlog = await keepAll(port, waiting);
    // Less than is in use: the first command that needs memory is refused.
    await limit(1 << 20);
    const refused = await keep(port, golden[0]!);
    expect([refused.status, refused.json.error.code]).toEqual([503, 'not_ready']);
    expect(refused.json.error.message).toMatch(/memory/);
    // A worker that starts now takes its share, too.
    await cluster.add();
    const full = performance.now();
    await backlog.rightly(waiting);
    report.note(`${BACKLOG} jobs that waited were completed while Redis was full`);
    await delay(Math.max(0, FULL_MS - (performance.now() - full)));
    expect((await subject.ask('/health/live')).status).toBe(200);
    await limit(0);
    await traffic.goesOn(20);
    await traffic.stop();
    expect(traffic.refusals.get('503 not_ready') ?? 0).toBeGreaterThan(0);
    traffic.tell(report);
  });
  const now = workers.flatMap((worker) => worker.enginePids());
  expect(now).toEqual(expect.arrayContaining(pids));
  await eventually(async () => (await jobsIn(redis, 'active')) === 0, 'an empty queue');
  expect(await redis.use((client) => client.info('stats'))).toContain('evicted_keys:0');
});
