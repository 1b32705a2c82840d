/**
 * Admits or refuses a request by its caller's share of the queue, and by the tokens that the caller has used and the
 * bytes that its requests have moved this minute.
 */
import type { Response } from 'express';
import type { KeyRing } from '../../access/key-ring.js';
import { ERROR_CODES, SidaError } from '../../errors.js';
import type { Metrics } from '../../observability/metrics.js';
import type { JobRequest, JobResult } from '../../protocol/engine-messages.js';
import type { Quote } from '../../protocol/quote.js';
import type { JobQueue } from '../../queue/job-queue.js';
import { taskOf } from '../../tasks/registry.js';
import { leastTokens, type RequestCost, refusedTokens } from '../../tasks/shared/token-estimates.js';
import { payerOf } from '../middleware/auth.js';
import { QueueShare } from './queue-share.js';
import { type Allowance, type RateLimit, RateLimited, type Reservation, type Unit } from './rate-limit.js';

interface AdmissionDependencies {
  keys: KeyRing;
  queue: JobQueue;
  metrics: Metrics;
  queueBound: number;
  /** Undefined without --rate-limit. */
  tokenLimit: RateLimit | undefined;
  /** Undefined without --rate-limit-bytes. */
  byteLimit: RateLimit | undefined;
}

/** An admitted request. Call exactly one of `done`, `failed` and `unused`, once. */
export interface Ticket {
  /** True when the ticket holds a place in the queue or a reservation until it is settled. */
  holds: boolean;
  /** Whether its bytes are limited. Call `checkBytes` before its quote and `reserveBytes` before the job then. */
  countsBytes: boolean;
  /** Sets headers as `admit`. Rejects with rate_limited when the minute's bytes are used up. */
  checkBytes(): Promise<void>;
  /** Sets headers as `admit`. Rejects with rate_limited, or with cannot_run when half of its like exceed the limit. */
  reserveBytes(quote: Quote | undefined): Promise<void>;
  /** The job has a result. Charges the tokens that it used and the bytes that it moved. */
  done(result: JobResult): Promise<void>;
  /** The job has no result. Returns what was reserved, less what the work that was done has used. */
  failed(error: SidaError): Promise<void>;
  /** The request created no job. Returns what was reserved. */
  unused(): Promise<void>;
}

/** Answers of a kind before its quotes count, which rest on the model's shape until then. */
export const LEAST_ANSWERS = 8;

export class Admission {
  readonly #needs: AdmissionDependencies;
  readonly #shares: QueueShare;
  /** What all answers moved. */
  readonly #moved = { answers: 0, bytes: 0 };

  constructor(needs: AdmissionDependencies) {
    this.#needs = needs;
    this.#shares = new QueueShare(needs.queueBound);
  }

  /** Sets the headers of the rate limit. Rejects with queue_full, rate_limited or cannot_run. */
  async admit(res: Response, request: JobRequest): Promise<Ticket> {
    const { keys, queue, metrics, tokenLimit, byteLimit } = this.#needs;
    const who = payerOf(res);
    // With a single key there are no other callers to leave room for.
    const leave = keys.size > 1 ? this.#shares.take(who, queue.stats.waiting) : () => undefined;
    if (leave === undefined) {
      metrics.countRefusal('share');
      throw new SidaError({
        code: 'queue_full',
        message: 'This key has its share of the queue: the rest is for others; try again later',
      });
    }
    const { tokens, engine } = taskOf(request);
    const limit = engine.runs === 'model' ? byteLimit : undefined;
    let moves: Reservation | undefined;
    const reserveBytes = async (cost: RequestCost, quote?: Quote) => {
      try {
        moves = await limit?.reserve(who, cost, quote && quoteDetails(quote));
      } catch (error) {
        throw this.#refused(res, error);
      }
      if (moves !== undefined) setHeaders(res, 'bytes', moves.allowance);
    };
    try {
      const reservation = await tokenLimit?.reserve(who, tokens.cost(request));
      if (reservation !== undefined) setHeaders(res, 'tokens', reservation.allowance);
      return {
        holds: keys.size > 1 || reservation !== undefined || limit !== undefined,
        countsBytes: limit !== undefined,
        checkBytes: () => reserveBytes({ known: 0, estimated: 0 }),
        reserveBytes: (quote) => reserveBytes(this.#bytesOf(quote), quote),
        async unused() {
          leave();
          await Promise.all([reservation?.settle(0), moves?.settle(0)]);
        },
        done: async (result) => {
          leave();
          if (limit !== undefined) {
            this.#moved.answers += 1;
            this.#moved.bytes += result.experts.bytes;
          }
          const used = Math.max(tokens.used(request, result), leastTokens(tokens.texts(request)));
          await Promise.all([reservation?.settle(used), moves?.settle(Math.round(result.experts.bytes))]);
        },
        async failed(error) {
          leave();
          if (mayHaveRun(error)) return;
          const used = wasRead(error) ? refusedTokens(tokens.texts(request)) : 0;
          await Promise.all([reservation?.settle(used), moves?.settle(0)]);
        },
      };
    } catch (error) {
      leave();
      throw this.#refused(res, error);
    }
  }

  /** What it moves: its quote, or what answers moved on average before the quotes of its kind count. */
  #bytesOf(quote: Quote | undefined): RequestCost {
    if (quote === undefined || quote.measured < LEAST_ANSWERS) {
      const { answers, bytes } = this.#moved;
      return { known: 0, estimated: Math.round(bytes / Math.max(1, answers)) };
    }
    const known = Math.round(quote.bytes.p50);
    return { known, estimated: Math.round(quote.bytes.p90) - known };
  }

  #refused(res: Response, error: unknown): unknown {
    if (!(error instanceof RateLimited)) return error;
    this.#needs.metrics.countRefusal(error.unit === 'tokens' ? 'rate' : 'bytes');
    setHeaders(res, error.unit, error.allowance);
    return error;
  }
}

/**
 * After a cancellation or a missed deadline, and when a run found that the request cannot be answered, it is unknown
 * how much was computed, so the reservation stays charged.
 */
function mayHaveRun(error: SidaError): boolean {
  return error.code === 'cancelled' || error.code === 'deadline_exceeded' || (error.ran && wasRead(error));
}

/** Whether the engine has encoded the request's texts and then refused the request. */
function wasRead({ code, read }: SidaError): boolean {
  return read || ERROR_CODES[code].type === 'invalid_request_error';
}

function setHeaders(res: Response, unit: Unit, { limit, remaining, resetSeconds }: Allowance): void {
  // A stream that waits for its quote may have begun.
  if (res.headersSent) return;
  res
    .setHeader(`x-ratelimit-limit-${unit}`, limit)
    .setHeader(`x-ratelimit-remaining-${unit}`, remaining)
    .setHeader(`x-ratelimit-reset-${unit}`, `${resetSeconds}s`);
}

/** What a refusal tells of a quote. */
export function quoteDetails({ seconds, queueSeconds, experts, bytes, maxTokens }: Quote) {
  return {
    seconds_p50: seconds.p50,
    seconds_p90: seconds.p90,
    queue_seconds: queueSeconds,
    experts: Math.round(experts.p50),
    bytes_moved: Math.round(bytes.p50),
    max_tokens: maxTokens,
  };
}
