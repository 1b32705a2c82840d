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

/** Most bytes of the texts of an answer that only the tokenizer makes. */
const MOST_ANSWER_BYTES = 4 << 20;

/** Throws cannot_run for the texts of an answer with so many bytes together. */
export function checkAnswerBytes(bytes: number): void {
  if (bytes <= MOST_ANSWER_BYTES) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `The answer's texts have ${bytes} bytes together; the limit of one answer is ${MOST_ANSWER_BYTES}`,
    details: { bytes, limit: MOST_ANSWER_BYTES },
  });
}
