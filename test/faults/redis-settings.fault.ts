// A Redis that forgets jobs by its settings: eviction, and no append-only file. test/integration/cli has the doctor.
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { RedisServer } from '../support/redis.js';
import { MINI, ServerProcess } from '../support/server-process.js';
import { WorkerProcess } from '../support/worker-process.js';
import { FAST, SMALL } from './cluster.js';
import { fault } from './fault.js';

fault('a Redis with eviction and no append-only file', async (report) => {
  const redis = await RedisServer.start(['--maxmemory-policy', 'allkeys-lru', '--appendonly', 'no']);
  const flags = ['--model', MINI, '--redis', redis.url, ...SMALL, ...FAST];
  const worker = await WorkerProcess.start(flags);
  const server = await ServerProcess.start(['--no-worker', ...flags]);
  try {
    for (const process of [worker, server]) {
      await eventually(() => /appendonly is off.*lost/.test(process.output), 'a warning');
      expect(process.output).toMatch(/allkeys-lru.*drop jobs/);
      expect(process.output).toMatch(/maxmemory-policy noeviction/);
      expect(process.output).toMatch(/appendonly yes/);
    }
    report.note('server and worker warn at their start, and name the fix');
  } finally {
    await Promise.all([worker.stop(), server.stop()]);
    await redis.end();
  }
});
