/** Connections to Redis. Producers fail fast, since a client waits for them; workers wait for Redis, since jobs wait for them. */
import { Redis, type RedisOptions } from 'ioredis';
import { LEDGER_SCRIPTS } from './ledger-scripts.js';

/** What a producer waits for one command. */
export const COMMAND_MS = 500;

const COMMON = {
  connectTimeout: 2_000,
  retryStrategy: (times: number) => Math.min(50 * 2 ** Math.min(times, 5), 1_000),
  scripts: LEDGER_SCRIPTS,
} satisfies RedisOptions;

/** Commands are refused at once without a connection, and fail after COMMAND_MS. */
export function producerClient(url: string): Redis {
  return new Redis(url, {
    ...COMMON,
    enableOfflineQueue: false,
    // A command whose client was told that it failed must not run later.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_MS,
  });
}

/** Commands wait for the connection to come back. */
export function workerClient(url: string): Redis {
  return new Redis(url, { ...COMMON, maxRetriesPerRequest: null });
}

/** Subscriptions are taken up again after every reconnection. */
export function subscriberClient(url: string): Redis {
  return new Redis(url, {
    ...COMMON,
    enableOfflineQueue: false,
    autoResubscribe: true,
    maxRetriesPerRequest: 0,
  });
}

/** For logs: without name and password. */
export function redisAddress(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname === '/' ? '' : pathname}`;
}
