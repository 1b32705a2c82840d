/** The errors that clients get while Redis does not answer, and the time limit for its answer. */
import { SidaError } from '../../errors.js';

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
