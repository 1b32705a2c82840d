/** The rate limit of several servers over one Redis: they count together, and each by itself while Redis is away. */
import { type RateLimiterAbstract, RateLimiterRedis } from 'rate-limiter-flexible';
import { KEY_PREFIX } from '../../queue/redis/queue-name.js';
import { producerClient } from '../../queue/redis/redis-client.js';
import { MINUTE_S, memoryLimiter } from './token-limit.js';

/**
 * The library's script, but for one thing: what is given back ends at 0. A reservation that was made while Redis was away is
 * given back where it was never taken.
 */
const CHARGE = `
redis.call('set', KEYS[1], 0, 'EX', ARGV[2], 'NX')
local consumed = redis.call('incrby', KEYS[1], ARGV[1])
local ttl = redis.call('pttl', KEYS[1])
if consumed < 0 then
  consumed = 0
  redis.call('set', KEYS[1], 0, 'PX', math.max(1, ttl))
end
return {consumed, ttl}
`;

export interface SharedLimiter {
  limiter: RateLimiterAbstract;
  close(): void;
}

/** Its servers have the same limit; one that has another counts what the others use against its own. */
export function redisLimiter(
  url: string,
  tokensPerMinute: number,
  onError: (error: Error) => void,
): SharedLimiter {
  const client = producerClient(url).on('error', onError);
  const limiter = new RateLimiterRedis({
    storeClient: client,
    keyPrefix: `${KEY_PREFIX}:rate`,
    points: tokensPerMinute,
    duration: MINUTE_S,
    customIncrTtlLuaScript: CHARGE,
    rejectIfRedisNotReady: true,
    insuranceLimiter: memoryLimiter(tokensPerMinute),
  });
  return { limiter, close: () => client.disconnect() };
}
