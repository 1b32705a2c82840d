/** Limits of the texts that one request has the engine encode. */
import { SidaError } from '../../errors.js';

/** Most bytes of all texts of a request together: as many as fit into a request body without a template. */
const MOST_TEXT_BYTES = 1 << 20;

/** Throws request_too_large. `counted` says in the message what else is in the sum. */
export function checkBytesTogether(bytes: number, param: string, counted = ''): void {
  if (bytes <= MOST_TEXT_BYTES) return;
  throw new SidaError({
    code: 'request_too_large',
    message: `The texts of the request have ${bytes} bytes together${counted}; the limit is ${MOST_TEXT_BYTES} bytes`,
    param,
    details: { bytes, limit: MOST_TEXT_BYTES },
  });
}
