import { expect, it } from 'vitest';
import { producerClient, workerClient } from '../../../../src/queue/redis/redis-client.js';
import { eventually } from '../../../support/eventually.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';
import { TcpProxy } from '../../../support/tcp-proxy.js';

describeWithRedis('a connection that stays open and is silent', () => {
  it('is closed and opened again', async () => {
    const redis = await RedisServer.start();
    const proxy = await TcpProxy.to(redis.port);
    const clients = [producerClient].map((client) =>
      client(`redis://127.0.0.1:${proxy.port}`).on('error', () => undefined),
    );
    try {
      await eventually(() => clients.every(({ status }) => status === 'ready'), 'the first connections');
      proxy.silence();
      const asked = await Promise.allSettled(clients.map((client) => client.ping()));
      expect(asked.map(({ status }) => status)).toEqual(['rejected']);
      for (const client of clients) {
        await eventually(async () => (await client.ping().catch(() => '')) === 'PONG', 'another connection');
      }
    } finally {
      for (const client of clients) client.disconnect();
      await proxy.close();
      await redis.end();
    }
  });
});

describeWithRedis('a primary that is made a replica and keeps its connections', () => {
  it('is left for the new primary that its address leads to', async () => {
    const [old, next] = [await RedisServer.start(), await RedisServer.start()];
    const proxy = await TcpProxy.to(old.port);
    const clients = [producerClient, workerClient].map((client) =>
      client(`redis://127.0.0.1:${proxy.port}`).on('error', () => undefined),
    );
    try {
      for (const client of clients)
        await eventually(async () => (await client.set('a', 1).catch(() => '')) === 'OK', 'a write');
      await old.use((client) => client.replicaof('127.0.0.1', next.port));
      proxy.target = next.port;
      for (const client of clients) {
        await eventually(async () => (await client.set('b', 1).catch(() => '')) === 'OK', 'the new primary');
      }
      expect(await next.use((client) => client.get('b'))).toBe('1');
    } finally {
      for (const client of clients) client.disconnect();
      await proxy.close();
      await Promise.all([old.end(), next.end()]);
    }
  });
});
