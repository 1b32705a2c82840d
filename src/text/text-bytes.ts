import { SidaError } from '../errors.js';

/** Longest text of one input, whatever the context: the tokenizer takes seconds for it. */
export const MOST_INPUT_BYTES = 4 * 1024 ** 2;

/** Throws request_too_large. The length is checked before anything else, because all work grows with it. */
export function checkTextBytes(bytes: number, limit: number, param?: string): void {
  if (bytes <= limit) return;
  throw new SidaError({
    code: 'request_too_large',
    message: `The text has ${bytes} bytes; the limit of one input is ${limit} bytes`,
    ...(param !== undefined && { param }),
    details: { bytes, limit },
  });
}
