/** What the parts of servers with and without Redis have in common. */

import type { ServeOptions } from '../config/options.js';
import { SidaError } from '../errors.js';
import type { ModelInfo } from '../protocol/engine-messages.js';
import type { KeptEnd } from '../queue/job-queue.js';
import type { ServedModel } from '../server/context.js';

export type OnKeptEnd = (end: KeptEnd) => void;

export type Backend = Pick<ServedModel, 'engine' | 'queue' | 'queueBound'> & {
  close(drainMs: number): Promise<void>;
};

/**
 * Tokens that keep an engine at full speed: those of running generations, the running batch, the prepared batches,
 * and one batch that is filling up.
 */
export function engineTokens(
  { queuedBatches, maxBatchTokens }: Pick<ServeOptions, 'queuedBatches' | 'maxBatchTokens'>,
  model: ModelInfo | undefined,
): number {
  return (model?.kvTokens ?? 0) + (queuedBatches + 3) * maxBatchTokens;
}

/** Calls `start`. Throws io_error when it fails. `flag` is the flag that chooses the port. */
export async function listening<T>(
  host: string,
  port: number,
  flag: string,
  start: () => Promise<T>,
): Promise<T> {
  try {
    return await start();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reason = code === 'EADDRINUSE' ? `another program listens there; choose another ${flag}` : message;
    throw new SidaError({ code: 'io_error', message: `Cannot listen on ${host}:${port}: ${reason}` });
  }
}
