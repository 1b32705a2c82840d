/**
 * Answers errors in the shape of the path's interface, by default OpenAI's. Messages that may name files or code appear
 * only in the log.
 */
import type { ErrorRequestHandler, Response } from 'express';
import type { z } from 'zod';
import { ERROR_CODES, type ErrorCode, SidaError } from '../../errors.js';
import type { ServerContext } from '../context.js';
import type { ErrorAnswer as ErrorSchema } from '../schemas/service.js';

/** Codes whose messages may contain paths or other internals. */
const INTERNAL = new Set<ErrorCode>(['internal', 'checkpoint_invalid', 'pack_invalid', 'io_error']);

export type ErrorAnswer = z.infer<typeof ErrorSchema>;

/** `under` names the id that leads to the error in the log; the message for a hidden error mentions it. */
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

/** Writes the body of an error answer in another shape, and may set headers. */
export type ErrorShape = (error: ErrorAnswer['error'], res: Response) => object;

/** `shapeOf` finds the shape for a path; undefined for OpenAI's. */
export function errors(
  { logger }: ServerContext,
  shapeOf: (path: string) => ErrorShape | undefined,
): ErrorRequestHandler {
  return (thrown, req, res, _next) => {
    const error = fromThrown(thrown);
    // A starting or draining server refuses by design, and the access log already has a line for the request.
    if (error.status >= 500 && error.code !== 'not_ready' && error.code !== 'shutting_down') {
      logger.error({ requestId: res.locals.requestId, err: error }, 'request failed');
    }
    // A client that has gone away reads no answer. An answer that has begun must not look complete.
    if (res.destroyed || res.headersSent) {
      res.destroy();
      return;
    }
    const retryAfter = retryAfterSeconds(error);
    if (retryAfter !== undefined) res.setHeader('retry-after', String(retryAfter));
    // Clients of OpenAI's and Anthropic's APIs would send it again, which takes as long.
    if (error.code === 'deadline_exceeded') res.setHeader('x-should-retry', 'false');
    const answer = errorAnswer(error);
    res.status(error.status).json(shapeOf(req.path)?.(answer.error, res) ?? answer);
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
