/**
 * Admits or refuses a request by its caller's share of the queue and the tokens that the caller has used this minute.
 */
import type { Response } from 'express';
import type { KeyRing } from '../../access/key-ring.js';
import { ERROR_CODES, SidaError } from '../../errors.js';
import type { Metrics } from '../../observability/metrics.js';
import type { JobRequest, JobResult } from '../../protocol/engine-messages.js';
import type { JobQueue } from '../../queue/job-queue.js';
import { taskOf } from '../../tasks/registry.js';
import { leastTokens, refusedTokens } from '../../tasks/shared/token-estimates.js';
import { payerOf } from '../middleware/auth.js';
import { QueueShare } from './queue-share.js';
import { type Allowance, RateLimited, type TokenLimit } from './token-limit.js';

interface AdmissionDependencies {
  keys: KeyRing;
  queue: JobQueue;
  metrics: Metrics;
  queueBound: number;
  /** Undefined without --rate-limit. */
  tokenLimit: TokenLimit | undefined;
}

/** An admitted request. Call exactly one of `done`, `failed` and `unused`, once. */
export interface Ticket {
  /** True when the ticket holds a place in the queue or a token reservation until it is settled. */
  holds: boolean;
  /** The job has a result. Charges the tokens that it used. */
  done(result: JobResult): Promise<void>;
  /** The job has no result. Returns the reserved tokens, less those of the work that was done. */
  failed(error: SidaError): Promise<void>;
  /** The request created no job. Returns the reserved tokens. */
  unused(): Promise<void>;
}

export class Admission {
  readonly #needs: AdmissionDependencies;
  readonly #shares: QueueShare;

  constructor(needs: AdmissionDependencies) {
    this.#needs = needs;
    this.#shares = new QueueShare(needs.queueBound);
  }

  /** Sets the headers of the rate limit. Rejects with queue_full, rate_limited or cannot_run. */
  async admit(res: Response, request: JobRequest): Promise<Ticket> {
    const { keys, queue, metrics, tokenLimit } = this.#needs;
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
    const { tokens } = taskOf(request);
    try {
      const reservation = await tokenLimit?.reserve(who, tokens.cost(request));
      if (reservation !== undefined) setHeaders(res, reservation.allowance);
      return {
        holds: keys.size > 1 || reservation !== undefined,
        async unused() {
          leave();
          await reservation?.settle(0);
        },
        async done(result) {
          leave();
          await reservation?.settle(
            Math.max(tokens.used(request, result), leastTokens(tokens.texts(request))),
          );
        },
        async failed(error) {
          leave();
          if (mayHaveRun(error)) return;
          await reservation?.settle(wasRead(error) ? refusedTokens(tokens.texts(request)) : 0);
        },
      };
    } catch (error) {
      leave();
      if (error instanceof RateLimited) {
        metrics.countRefusal('rate');
        setHeaders(res, error.allowance);
      }
      throw error;
    }
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

function setHeaders(res: Response, { limit, remaining, resetSeconds }: Allowance): void {
  res
    .setHeader('x-ratelimit-limit-tokens', limit)
    .setHeader('x-ratelimit-remaining-tokens', remaining)
    .setHeader('x-ratelimit-reset-tokens', `${resetSeconds}s`);
}
