import { afterEach, expect, it } from 'vitest';
import { checkRedis } from '../../../src/cli/doctor.js';
import { freePort } from '../../support/free-port.js';
import { describeWithRedis, RedisServer } from '../../support/redis.js';

describeWithRedis('sida doctor --redis', () => {
  let server: RedisServer | undefined;
  afterEach(() => server?.end());

  it('accepts a Redis that persists its data and does not evict', async () => {
    server = await RedisServer.start();
    expect(await checkRedis(server.url)).toMatchObject({
      result: 'ok',
      found: expect.stringContaining('noeviction'),
    });
  });

  it('warns of a Redis without an append-only file or with eviction, and names the fix', async () => {
    server = await RedisServer.start(['--appendonly', 'no', '--maxmemory-policy', 'allkeys-lru']);
    const { result, found, hint } = await checkRedis(server.url);
    expect(result).toBe('warn');
    expect(found).toMatch(/appendonly is off.*allkeys-lru/);
    expect(hint).toMatch(/CONFIG SET appendonly yes[\s\S]*CONFIG SET maxmemory-policy noeviction/);
  });

  it('refuses a node of a cluster without its keys, and says why', async () => {
    server = await RedisServer.start(['--cluster-enabled', 'yes']);
    const { result, found } = await checkRedis(server.url);
    expect(result).toBe('fail');
    expect(found).toMatch(/is a node of a Redis Cluster that does not have sida's keys. No node has them/);
  });

  it('fails when nothing answers, without showing a password', async () => {
    const check = await checkRedis(`redis://user:hunter2@127.0.0.1:${await freePort()}`);
    expect(check.result).toBe('fail');
    expect(JSON.stringify(check)).not.toContain('hunter2');
  });
});
