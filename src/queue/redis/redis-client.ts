/**
 * Connections to Redis. Producers fail fast, because a client waits. Workers wait for Redis, because their work is
 * already done.
 */
import { Redis, type RedisOptions } from 'ioredis';
import type { Logger } from '../../observability/logger.js';
import { LEDGER_SCRIPTS, type LedgerScript } from './ledger-scripts.js';

/** Longest time that a producer waits for one command. */
const COMMAND_MS = 1_000;

/**
 * A connection that owes a reply and is silent for this long is closed and opened again. Its other end may have lost
 * power or its route, and TCP alone would wait for a quarter of an hour.
 */
const SILENT_MS = 4_000;

const COMMON = {
  connectTimeout: 2_000,
  retryStrategy: (times: number) => Math.min(50 * 2 ** Math.min(times, 5), 1_000),
  socketTimeout: SILENT_MS,
  // A primary that was made a replica keeps its connections. The address leads to the new primary.
  reconnectOnError: ({ message }) => /\bREADONLY\b/.test(message),
  scripts: LEDGER_SCRIPTS,
} satisfies RedisOptions;

/** Commands fail at once without a connection, and after COMMAND_MS without a reply. */
export function producerClient(url: string): Redis {
  return new Redis(url, {
    ...COMMON,
    enableOfflineQueue: false,
    // A command that was reported to its client as failed must not run later.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_MS,
  });
}

/** Commands wait until the connection is back. */
export function workerClient(url: string): Redis {
  return new Redis(url, { ...COMMON, maxRetriesPerRequest: null });
}

/** Subscriptions are restored after every reconnection. */
export function subscriberClient(url: string): Redis {
  return new Redis(url, {
    ...COMMON,
    enableOfflineQueue: false,
    autoResubscribe: true,
    maxRetriesPerRequest: 0,
    // Followers whose subscription fails read the ledger periodically instead.
    commandTimeout: 500,
  });
}

/** `prefix` is the prefix of the queue's keys. */
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

/** Shortest time between two equal lines of the log. */
const QUIET_MS = 30_000;

/**
 * Logs Redis errors. Each failed reconnection gives the same message, so equal messages are logged once per QUIET_MS.
 */
export function logFaults(logger: Logger): (error: Error) => void {
  const told = new Map<string, number>();
  return ({ message }) => {
    if (performance.now() - (told.get(message) ?? -QUIET_MS) < QUIET_MS) return;
    if (told.size > 100) told.clear();
    told.set(message, performance.now());
    logger.warn({ reason: message }, 'redis');
  };
}

/** The address for logs, without user name and password. */
export function redisAddress(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname === '/' ? '' : pathname}`;
}
