/** The errors that clients get while Redis does not answer, and how soon. */
import { SidaError } from '../../errors.js';

/** A client that needs Redis is refused after this. */
const REFUSE_MS = 1_000;

/** Redis's answer, or a refusal after a second. */
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

/** Redis had the job and has lost it. */
export function lost(): SidaError {
  return new SidaError({ code: 'not_ready', message: 'Redis no longer knows the request; send it again' });
}
