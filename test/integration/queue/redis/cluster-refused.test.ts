// A Redis Cluster cannot hold the queue. Each command that would use one ends, and says so.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../../../support/free-port.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { MINI } from '../../../support/server-process.js';
import { SidaProcess } from '../../../support/sida-process.js';

describeWithRedis('a node of a Redis Cluster', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start(['--cluster-enabled', 'yes']);
  });
  afterAll(() => redis.end());

  it.each([
    ['serve', () => ['serve', '--model', MINI, '--memory-budget', '50%']],
    ['serve without a worker', () => ['serve', '--model', 'switch-mini', '--no-worker']],
    ['worker', () => ['worker', '--model', MINI, '--memory-budget', '50%']],
  ])('is refused by sida %s', async (_, args) => {
    const port = args()[0] === 'serve' ? ['--port', String(await freePort())] : [];
    const sida = new SidaProcess([...args(), ...port, '--redis', redis.url, '--log-level', 'error']);
    expect(await sida.exit).toBe(1);
    expect(sida.output).toMatch(
      /^sida: The Redis at redis:\/\/127\.0\.0\.1:\d+ is a node of a Redis Cluster, and sida speaks to one node only\. .*\n$/m,
    );
  });

  it('is refused when it comes after the start', async () => {
    const late = await RedisServer.absent(['--cluster-enabled', 'yes']);
    const port = ['--port', String(await freePort())];
    const sida = new SidaProcess([
      'serve',
      '--model',
      'switch-mini',
      '--no-worker',
      '--redis',
      late.url,
      ...port,
    ]);
    try {
      await late.up();
      expect(await sida.exit).toBe(1);
      expect(sida.output).toContain('Redis Cluster');
    } finally {
      await late.end();
    }
  });
});
