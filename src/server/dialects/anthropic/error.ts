/** Errors in Anthropic's shape. */
import { ERROR_CODES, type ErrorCode } from '../../../errors.js';
import type { ErrorAnswer } from '../../middleware/errors.js';
import { withParam } from '../error-text.js';
import type { AnthropicError } from './schema.js';

const TYPES: Record<number, string> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

export function errorBody(error: ErrorAnswer['error'], requestId: string): typeof AnthropicError._output {
  const { status } = ERROR_CODES[error.code as ErrorCode];
  const type = TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  const details = error.param === 'thread' ? { details: NO_THREADS } : {};
  return { type: 'error', error: { type, message: messageOf(error), ...details }, request_id: requestId };
}

/** Clients that begin a thread send all messages after this. */
const NO_THREADS = { error_code: 'thread_unsupported_request', unsupported: ['server'] };

/** Clients know by these words that they must shorten the conversation. */
function messageOf(error: ErrorAnswer['error']): string {
  const { tokens, limit } = error.details ?? {};
  if (error.code !== 'context_length_exceeded') return withParam(error);
  return `prompt is too long: ${tokens} tokens > ${limit} maximum. ${error.message}`;
}
