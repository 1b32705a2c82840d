/** Answers an error in OpenAI's shape. What may name files or code stays in the log. */
import type { ErrorRequestHandler } from 'express';
import { ERROR_CODES, type ErrorCode, SidaError } from '../../errors.js';
import type { ServerContext } from '../context.js';

/** Messages of these come from deep inside and may hold paths. */
const INTERNAL = new Set<ErrorCode>(['internal', 'checkpoint_invalid', 'pack_invalid', 'io_error']);

export interface ErrorAnswer {
  error: {
    message: string;
    type: string;
    code: string;
    param: string | null;
    /** The numbers behind the message. */
    details?: Record<string, number>;
  };
}

/** `under`: what names the error's reason in the log. */
export function errorAnswer(error: SidaError, under = 'request id'): ErrorAnswer {
  const hidden = INTERNAL.has(error.code);
  const numbers = Object.entries(error.details ?? {}).filter(
    (entry): entry is [string, number] => typeof entry[1] === 'number' && entry[0] !== 'retry_after_s',
  );
  return {
    error: {
      message: hidden
        ? `The request could not be run; the server log has the reason under this ${under}`
        : error.message,
      type: ERROR_CODES[error.code].type,
      code: error.code,
      param: error.param ?? null,
      ...(!hidden && numbers.length > 0 && { details: Object.fromEntries(numbers) }),
    },
  };
}

function retryAfterSeconds(error: SidaError): number | undefined {
  if (error.status !== 429 && error.status !== 503) return undefined;
  const given = error.details?.retry_after_s;
  return typeof given === 'number' ? given : error.status === 429 ? 1 : 5;
}

export function errors({ logger }: ServerContext): ErrorRequestHandler {
  return (thrown, _req, res, _next) => {
    const error = fromThrown(thrown);
    // A server that starts or drains refuses by design: the request's own line says so.
    if (error.status >= 500 && error.code !== 'not_ready' && error.code !== 'shutting_down') {
      logger.error({ requestId: res.locals.requestId, err: error }, 'request failed');
    }
    // A client that went away reads no answer, and half an answer must not look whole.
    if (error.code === 'cancelled' || res.headersSent) {
      res.destroy();
      return;
    }
    const retryAfter = retryAfterSeconds(error);
    if (retryAfter !== undefined) res.setHeader('retry-after', String(retryAfter));
    res.status(error.status).json(errorAnswer(error));
  };
}

/** Express reports a path it cannot decode as an error with a 4xx status. */
function fromThrown(thrown: unknown): SidaError {
  const status = (thrown as { status?: unknown } | null)?.status;
  if (!(thrown instanceof SidaError) && typeof status === 'number' && status >= 400 && status < 500) {
    return new SidaError(
      { code: 'invalid_request', message: 'The request path is not valid' },
      { cause: thrown },
    );
  }
  return SidaError.from(thrown);
}
