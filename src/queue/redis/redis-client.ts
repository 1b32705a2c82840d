/**
 * Connections to Redis. Producers fail fast, since a client waits. Workers wait for Redis, since their work is done
 * already.
 */
import { Redis, type RedisOptions } from 'ioredis';
import type { Logger } from '../../observability/logger.js';
import { LEDGER_SCRIPTS, type LedgerScript } from './ledger-scripts.js';

/** Longest time a producer waits for one command. */
const COMMAND_MS = 1_000;

/**
 * A connection that owes a reply and is silent for so long is closed and made anew: its other end may be gone,
 * behind a router or on a machine that lost its power, and TCP would wait for a quarter of an hour.
 */
const SILENT_MS = 4_000;

const COMMON = {
  connectTimeout: 2_000,
  retryStrategy: (times: number) => Math.min(50 * 2 ** Math.min(times, 5), 1_000),
  socketTimeout: SILENT_MS,
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
    // After that its followers do without, and look from time to time.
    commandTimeout: 500,
  });
}

/** `prefix`: of every key of the queue. */
export function callScript(
  client: Redis,
  script: LedgerScript,
  prefix: string,
  ...values: (string | number)[]
): Promise<unknown> {
  const commands = client as unknown as Record<
    LedgerScript,
    (...all: (string | number)[]) => Promise<unknown>
  >;
  return commands[script](prefix, ...values);
}

/** Between two equal lines of the log. */
const QUIET_MS = 30_000;

/** Every try to connect again fails with the same message, which is logged once in a while. */
export function logFaults(logger: Logger): (error: Error) => void {
  const told = new Map<string, number>();
  return ({ message }) => {
    if (performance.now() - (told.get(message) ?? -QUIET_MS) < QUIET_MS) return;
    if (told.size > 100) told.clear();
    told.set(message, performance.now());
    logger.warn({ reason: message }, 'redis');
  };
}

/** For logs: without name and password. */
export function redisAddress(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname === '/' ? '' : pathname}`;
}
