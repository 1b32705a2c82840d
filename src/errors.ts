/** Every error code of the system, with the HTTP status and the OpenAI-style type of its response. */
export const ERROR_CODES = {
  invalid_request: { status: 400, type: 'invalid_request_error' },
  context_length_exceeded: { status: 400, type: 'invalid_request_error' },
  invalid_json: { status: 400, type: 'invalid_request_error' },
  unauthorized: { status: 401, type: 'authentication_error' },
  forbidden: { status: 403, type: 'permission_error' },
  not_found: { status: 404, type: 'invalid_request_error' },
  model_not_found: { status: 404, type: 'invalid_request_error' },
  method_not_allowed: { status: 405, type: 'invalid_request_error' },
  request_timeout: { status: 408, type: 'invalid_request_error' },
  request_too_large: { status: 413, type: 'invalid_request_error' },
  unsupported_media_type: { status: 415, type: 'invalid_request_error' },
  cannot_run: { status: 422, type: 'invalid_request_error' },
  too_expensive: { status: 422, type: 'invalid_request_error' },
  budget_too_small: { status: 422, type: 'invalid_request_error' },
  idempotency_conflict: { status: 422, type: 'invalid_request_error' },
  rate_limited: { status: 429, type: 'rate_limit_error' },
  too_many_streams: { status: 429, type: 'rate_limit_error' },
  queue_full: { status: 429, type: 'overloaded_error' },
  cancelled: { status: 499, type: 'cancelled' },
  internal: { status: 500, type: 'server_error' },
  nonfinite_output: { status: 500, type: 'server_error' },
  checkpoint_invalid: { status: 500, type: 'server_error' },
  pack_invalid: { status: 500, type: 'server_error' },
  io_error: { status: 500, type: 'server_error' },
  out_of_memory: { status: 500, type: 'server_error' },
  hub_unreachable: { status: 502, type: 'server_error' },
  device_failed: { status: 503, type: 'server_error' },
  device_unavailable: { status: 500, type: 'server_error' },
  engine_crashed: { status: 503, type: 'server_error' },
  not_ready: { status: 503, type: 'server_error' },
  shutting_down: { status: 503, type: 'server_error' },
  too_late: { status: 503, type: 'overloaded_error' },
  too_slow: { status: 503, type: 'server_error' },
  deadline_exceeded: { status: 504, type: 'server_error' },
} as const;

export type ErrorCode = keyof typeof ERROR_CODES;

/** The plain form of an error, which crosses process and thread boundaries. */
export interface ErrorBody {
  code: ErrorCode;
  message: string;
  /** The request field at fault, by its name in the API. */
  param?: string;
  /** Numbers behind the message, e.g. `needed_bytes`. */
  details?: Record<string, number | string>;
  /** True for an error of a job that passes had run for. What it reserved of --rate-limit then stays charged. */
  ran?: true;
  /** True for a refusal for other reasons than the request, after the request's texts were encoded. */
  read?: true;
}

/** Whether the error means that a file or its directory does not exist. */
export function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}

export class SidaError extends Error {
  readonly code: ErrorCode;
  readonly param: string | undefined;
  readonly details: Record<string, number | string> | undefined;
  readonly ran: boolean;
  readonly read: boolean;

  constructor(body: ErrorBody, options?: ErrorOptions) {
    super(body.message, options);
    this.name = 'SidaError';
    this.code = body.code;
    this.param = body.param;
    this.details = body.details;
    this.ran = body.ran ?? false;
    this.read = body.read ?? false;
  }

  get status(): number {
    return ERROR_CODES[this.code].status;
  }

  toBody(): ErrorBody {
    return {
      code: this.code,
      message: this.message,
      ...(this.param !== undefined && { param: this.param }),
      ...(this.details !== undefined && { details: this.details }),
      ...(this.ran && { ran: true }),
      ...(this.read && { read: true }),
    };
  }

  /** Keeps the code of a SidaError and of an addon error with a known `code`. Any other error becomes `internal`. */
  static from(error: unknown): SidaError {
    if (error instanceof SidaError) return error;
    if (error instanceof Error) {
      const { code, details } = error as { code?: string; details?: Record<string, number | string> };
      if (code !== undefined && Object.hasOwn(ERROR_CODES, code)) {
        const body = { code: code as ErrorCode, message: error.message };
        return new SidaError(details === undefined ? body : { ...body, details }, { cause: error });
      }
      return new SidaError({ code: 'internal', message: error.message }, { cause: error });
    }
    return new SidaError({ code: 'internal', message: String(error) });
  }
}
