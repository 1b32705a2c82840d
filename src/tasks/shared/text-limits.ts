/** Limits of the texts that one request has the engine encode. */
import { SidaError } from '../../errors.js';
import { MOST_INPUT_BYTES } from '../../text/text-bytes.js';

const LEAST_BYTES = 64 * 1024;
const LEAST_BODY_BYTES = 1024 ** 2;

/** Longest text that may fit into a context, whose tokens have at most so many bytes each. */
export function inputBytesOf(contextTokens: number, longestTokenBytes: number): number {
  return Math.min(MOST_INPUT_BYTES, Math.max(LEAST_BYTES, contextTokens * longestTokenBytes));
}

/** Most bytes of a request's body: one text of the longest, each byte of it escaped. */
export function bodyBytesOf(maxInputBytes: number): number {
  return Math.max(LEAST_BODY_BYTES, 2 * maxInputBytes);
}

/**
 * Throws request_too_large where the texts of a request are more than fit into its body without a template. `counted`
 * says in the message what else is in the sum.
 */
export function checkBytesTogether(
  bytes: number,
  { maxInputBytes }: { maxInputBytes: number },
  param: string,
  counted = '',
): void {
  const limit = bodyBytesOf(maxInputBytes);
  if (bytes <= limit) return;
  throw new SidaError({
    code: 'request_too_large',
    message: `The texts of the request have ${bytes} bytes together${counted}; the limit is ${limit} bytes`,
    param,
    details: { bytes, limit },
  });
}
