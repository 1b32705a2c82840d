// The rate limit that servers share through Redis.
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { RateLimit, RateLimited } from '../../../../src/server/admission/rate-limit.js';
import { redisLimiters } from '../../../../src/server/admission/redis-limiter.js';
import { eventually } from '../../../support/eventually.js';
import { describeWithRedis, RedisServer } from '../../../support/redis.js';

describeWithRedis('servers that share a rate limit', () => {
  let redis: RedisServer;
  let shared: NonNullable<ReturnType<typeof redisLimiters>>[];
  let servers: RateLimit[];
  beforeAll(async () => {
    redis = await RedisServer.start();
    shared = [0, 1].map(() => redisLimiters(redis.url, { tokens: 100, bytes: 50 }, () => undefined)!);
    servers = shared.map(({ limiters }) => new RateLimit(limiters.tokens!));
  });
  beforeEach(() => redis.use((client) => client.flushall()));
  afterAll(async () => {
    for (const each of shared) each.close();
    await redis.end();
  });

  const reserve = (server: number, tokens: number, who = 'someone') =>
    servers[server]!.reserve(who, { known: tokens, estimated: 0 });
  /** Waits until the first server counts in Redis. */
  const connected = () =>
    eventually(async () => {
      const { settle } = await reserve(0, 1, 'probe');
      await settle(0);
      return redis.use(async (client) => (await client.keys('*probe*')).length === 1);
    }, 'the connection');

  it('count each caller together', async () => {
    await connected();
    expect((await reserve(0, 60)).allowance.remaining).toBe(40);
    expect((await reserve(1, 30)).allowance.remaining).toBe(10);
    await expect(reserve(0, 20)).rejects.toThrow(RateLimited);
    expect((await reserve(0, 20, 'another')).allowance.remaining).toBe(80);
    // A refused request is not charged.
    expect((await reserve(1, 10)).allowance.remaining).toBe(0);
  });

  it('count bytes apart from tokens', async () => {
    await connected();
    await reserve(0, 60);
    const [bytes] = shared.map(({ limiters }) => new RateLimit(limiters.bytes!, 'bytes'));
    expect((await bytes!.reserve('someone', { known: 0, estimated: 30 })).allowance.remaining).toBe(20);
    expect((await reserve(1, 10)).allowance.remaining).toBe(30);
  });

  it('see what another server has settled', async () => {
    const { settle } = await reserve(0, 90);
    await settle(10);
    expect((await reserve(1, 50)).allowance.remaining).toBe(40);
  });

  it('count by themselves while Redis is away, and together again afterwards', async () => {
    await redis.down();
    const { allowance, settle } = await reserve(0, 70, 'insured');
    expect(allowance.remaining).toBe(30);
    await expect(reserve(0, 70, 'insured')).rejects.toThrow(RateLimited);
    expect((await reserve(1, 70, 'insured')).allowance.remaining).toBe(30);
    await redis.up();
    await connected();
    expect((await reserve(1, 60, 'insured')).allowance.remaining).toBe(40);
    await settle(70);
    expect((await reserve(0, 10, 'insured')).allowance.remaining).toBe(30);
  });
});
