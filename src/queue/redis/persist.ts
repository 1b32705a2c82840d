/** Commands of workers are repeated until Redis is back, since the work that they report is done already. */
import { ReplyError } from 'ioredis';
import { SidaError } from '../../errors.js';

/** Between tries of a command that failed. */
const AGAIN_MS = 500;

/** An error reply of Redis is final, and so is every failure once `over` is true. */
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

/** Redis refused the command itself, and would again. */
function isReply(error: unknown): boolean {
  return (
    error instanceof ReplyError && !/^(OOM|LOADING|READONLY|BUSY|MISCONF)/.test((error as Error).message)
  );
}

export function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref());
}
