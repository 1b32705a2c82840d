/** Repeats a worker's commands until Redis is back, because the work that they report is already done. */
import { ReplyError } from 'ioredis';
import { SidaError } from '../../errors.js';

/** Milliseconds between tries of a failed command. */
const AGAIN_MS = 500;

/**
 * Rejects on a SidaError, on an error reply that another try would get again, and on any failure once `over` returns
 * true.
 */
export async function persist<T>(command: () => Promise<T>, over: () => boolean): Promise<T> {
  for (;;) {
    try {
      return await command();
    } catch (error) {
      if (isReply(error) || error instanceof SidaError || over()) throw error;
      await later(AGAIN_MS);
    }
  }
}

/** True when Redis refused the command itself, so that trying again is useless. */
function isReply(error: unknown): boolean {
  return (
    error instanceof ReplyError && !/^(OOM|LOADING|READONLY|BUSY|MISCONF)/.test((error as Error).message)
  );
}

export function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
