// A Redis that forgets jobs by its settings: eviction, or no append-only file.
import { expect } from 'vitest';
import { eventually } from '../support/eventually.js';
import { RedisServer } from '../support/redis.js';
import { MINI, ServerProcess } from '../support/server-process.js';
import { SidaProcess } from '../support/sida-process.js';
import { WorkerProcess } from '../support/worker-process.js';
import { FAST, SMALL } from './cluster.js';
import { fault } from './fault.js';

// biome-ignore format: a table
const SETTINGS: [what: string, settings: string[], says: RegExp, fix: RegExp][] = [
  ['allkeys-lru', ['--maxmemory-policy', 'allkeys-lru'], /allkeys-lru.*drop jobs/, /maxmemory-policy noeviction/],
  ['volatile-ttl', ['--maxmemory-policy', 'volatile-ttl'], /volatile-ttl.*drop jobs/, /maxmemory-policy noeviction/],
  ['no append-only file', ['--appendonly', 'no'], /appendonly is off.*lost/, /appendonly yes/],
];

for (const [what, settings, says, fix] of SETTINGS) {
  fault(`a Redis with ${what}`, async (report) => {
    const redis = await RedisServer.start(settings);
    const flags = ['--model', MINI, '--redis', redis.url, ...SMALL, ...FAST];
    const worker = await WorkerProcess.start(flags);
    const server = await ServerProcess.start(['--no-worker', ...flags]);
    try {
      for (const process of [worker, server]) {
        await eventually(() => says.test(process.output), 'a warning');
        expect(process.output).toMatch(fix);
      }
      const doctor = new SidaProcess(['doctor', '--redis', redis.url]);
      const code = await doctor.exit;
      expect(doctor.output).toMatch(says);
      expect(doctor.output).toMatch(fix);
      report.note(`server and worker warn at their start; doctor names the fix and exits with ${code}`);
    } finally {
      await Promise.all([worker.stop(), server.stop()]);
      await redis.end();
    }
  });
}
