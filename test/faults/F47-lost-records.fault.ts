// Redis loses records of jobs: by hand, by eviction, by FLUSHDB. The places of their keys in the queue come back.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { expect } from 'vitest';
import { hashKey, newApiKey } from '../../src/access/api-key.js';
import { keyLine } from '../../src/access/key-file.js';
import { bearer } from '../support/access-cases.js';
import { eventually } from '../support/eventually.js';
import { RedisServer } from '../support/redis.js';
import { MINI, metricsIn } from '../support/server-process.js';
import { WorkerProcess } from '../support/worker-process.js';
import { FAST, SMALL } from './cluster.js';
import { fault } from './fault.js';
import { aTimer } from './quiet.js';
import { Subject } from './subject.js';

const BOUND = 12;
const BODY = { type: 'classify', task: 'sst2', input: 'a fine film' };

const LOSSES: [what: string, lose: (client: Redis, jobs: string[]) => Promise<unknown>][] = [
  ['DEL', (client, jobs) => client.del(...jobs)],
  ['UNLINK of half of them', (client, jobs) => client.unlink(...jobs.slice(0, jobs.length / 2))],
  ['EXPIRE', (client, jobs) => Promise.all(jobs.map((job) => client.pexpire(job, 1)))],
  ['values of another type', (client, jobs) => Promise.all(jobs.map((job) => client.set(job, 'x')))],
  ['FLUSHDB', (client) => client.flushdb()],
];

fault('F47', 'Redis loses records of jobs that wait', async (report) => {
  const folder = mkdtempSync(join(tmpdir(), 'sida-lost-'));
  const keys = join(folder, 'keys');
  const [one, two] = [newApiKey(), newApiKey()];
  const line = (name: string, key: string) =>
    keyLine({ name, scopes: ['infer', 'metrics'], hash: hashKey(key) });
  writeFileSync(keys, [line('one', one), line('two', two)].join('\n'), { mode: 0o600 });
  const redis = await RedisServer.start();
  const flags = ['--model', MINI, '--redis', redis.url, ...SMALL, ...FAST];
  let worker = await WorkerProcess.start(flags);
  const server = ['--redis', redis.url, '--no-worker', '--api-keys', keys, '--queue-bound', String(BOUND)];
  const subject = await Subject.startWith({ headers: bearer(two) }, ...server);
  try {
    const post = () => subject.askBare('/v1/jobs', { method: 'POST', headers: bearer(one), body: BODY });
    /** Jobs that the key may have waiting. */
    const fill = async () => {
      const ids: string[] = [];
      for (let tries = 0; tries < 2 * BOUND; tries += 1) {
        const { status, json, text } = await post();
        if (status === 429) return ids;
        expect(status, text).toBe(202);
        ids.push(json.id);
        // The server looks at the queue twice a second.
        await delay(600);
      }
      throw new Error(`the key got ${ids.length} places of ${BOUND}`);
    };
    await worker.stop();
    const share = (await fill()).length;
    let slowestMs = 0;
    for (const [what, lose] of LOSSES) {
      await redis.use(async (client) => lose(client, await client.keys('sida:*:ledger:job:*')));
      const lost = performance.now();
      const watching = async () =>
        metricsIn((await subject.ask('/metrics')).text)('sida_queue_waiting_jobs') < share &&
        (await post()).status === 202;
      await eventually(watching, `a place after ${what}`, 30_000);
      slowestMs = Math.max(slowestMs, performance.now() - lost);
      await redis.use((client) => client.flushdb());
      await eventually(
        async () =>
          (await subject.metrics())('sida_queue_waiting_jobs') === 0 && (await post()).status === 202,
        'an empty queue',
      );
      await redis.use((client) => client.flushdb());
      await delay(2_500);
      expect((await fill()).length, `places after ${what}`).toBe(share);
    }
    await redis.use((client) => client.flushdb());
    report.note(
      `${LOSSES.length} ways to lose ${share} records: each time the key had its ${share} places again`,
    );
    report.withinTime('a place is free after', slowestMs / 1000, 15, 's', await aTimer(25));
    worker = await WorkerProcess.start(flags);
    await eventually(async () => (await subject.ask('/health/ready')).status === 200, 'a worker');
    expect((await subject.metrics())('sida_kept_watching')).toBe(0);
    await subject.recovered(report);
  } finally {
    await Promise.all([worker.stop(), subject.stop()]);
    await redis.end();
    rmSync(folder, { recursive: true });
  }
});
