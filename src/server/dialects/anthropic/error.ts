/** Errors in Anthropic's shape. */
import { ERROR_CODES, type ErrorCode } from '../../../errors.js';
import type { ErrorAnswer } from '../../middleware/errors.js';
import { withParam } from '../error-text.js';

const TYPES: Record<number, string> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

export function errorBody(error: ErrorAnswer['error'], requestId: string) {
  const { status } = ERROR_CODES[error.code as ErrorCode];
  const type = TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
  return { type: 'error' as const, error: { type, message: messageOf(error) }, request_id: requestId };
}

/** Clients know by these words that they must shorten the conversation. */
function messageOf(error: ErrorAnswer['error']): string {
  const { tokens, limit } = error.details ?? {};
  if (error.code !== 'context_length_exceeded') return withParam(error);
  return `prompt is too long: ${tokens} tokens > ${limit} maximum. ${error.message}`;
}
