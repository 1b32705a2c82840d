/**
 * Connections to Redis. Producers fail fast, because a client waits. Workers wait for Redis, because their work is
 * already done.
 */
import { Redis, type RedisOptions } from 'ioredis';
import { SidaError } from '../../errors.js';
import type { Logger } from '../../observability/logger.js';

/** Longest time that a producer waits for one command. */
const COMMAND_MS = 1_000;

/**
 * A connection that owes a reply and is silent for this long is closed and opened again. Its other end may have lost
 * power or its route, and TCP alone would wait for a quarter of an hour.
 */
export const SILENT_MS = 4_000;

/** Commands wait until the connection is back. BullMQ needs this for its connections that block. */
export const PATIENT = {
  connectTimeout: 2_000,
  maxRetriesPerRequest: null,
  retryStrategy: (times: number) => Math.min(50 * 2 ** Math.min(times, 5), 1_000),
  // A primary that was made a replica keeps its connections. The address leads to the new primary. The command is sent
  // again (2), since a job must not fail because of it.
  reconnectOnError: ({ message }) => (/\bREADONLY\b/.test(message) ? 2 : false),
  // No `socketTimeout`: with a blocking command of BullMQ, whose own watchdog closes the same socket, the client
  // would stay closed for ever.
} satisfies RedisOptions;

/** Commands fail at once without a connection, and after COMMAND_MS without a reply. */
export function producerClient(url: string): Redis {
  return new Redis(url, {
    ...PATIENT,
    enableOfflineQueue: false,
    // A command that was reported to its client as failed must not run later.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COMMAND_MS,
    socketTimeout: SILENT_MS,
    reconnectOnError: ({ message }) => /\bREADONLY\b/.test(message),
  });
}

export function workerClient(url: string): Redis {
  return new Redis(url, PATIENT);
}

/** Unix milliseconds of Redis's clock. */
export async function redisTime(client: Redis): Promise<number> {
  return Number((await client.time())[0]) * 1000;
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

export function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A request that needs Redis is refused after this time. */
const REFUSE_MS = 1_000;

/** Resolves with Redis's answer, or rejects with not_ready after REFUSE_MS or any failure. */
export async function soon<T>(answer: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(unreachable()), REFUSE_MS);
  });
  try {
    return await Promise.race([answer, late]);
  } catch (error) {
    throw error instanceof SidaError ? error : unreachable(error);
  } finally {
    clearTimeout(timer);
  }
}

export function unreachable(cause?: unknown): SidaError {
  const full = cause instanceof Error && cause.message.startsWith('OOM');
  const message = full
    ? 'Redis has no memory left; try again later'
    : 'Redis cannot be reached; try again later';
  return new SidaError({ code: 'not_ready', message }, { cause });
}

/** The error of a job that Redis accepted and has lost. */
export function lost(): SidaError {
  return new SidaError({ code: 'not_ready', message: 'Redis no longer knows the request; send it again' });
}
