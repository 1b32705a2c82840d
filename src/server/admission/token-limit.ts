/**
 * Limits each caller's tokens per minute. A request reserves tokens when it arrives and settles them when it ends.
 */
import { type RateLimiterAbstract, RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { SidaError } from '../../errors.js';
import type { TokenCost } from '../../tasks/shared/token-estimates.js';

export interface Allowance {
  limit: number;
  remaining: number;
  /** Seconds until the minute ends. */
  resetSeconds: number;
}

interface Reservation {
  allowance: Allowance;
  /** Replaces the reserved tokens with the tokens that were used. */
  settle(used: number): Promise<void>;
}

export const MINUTE_S = 60;

/** A limiter that counts in this process's memory. */
export function memoryLimiter(tokensPerMinute: number): RateLimiterAbstract {
  return new RateLimiterMemory({ points: tokensPerMinute, duration: MINUTE_S });
}

export class TokenLimit {
  readonly #limiter: RateLimiterAbstract;

  /** One point of `limiter` is one token; its duration is a minute. */
  constructor(limiter: RateLimiterAbstract) {
    this.#limiter = limiter;
  }

  /** Rejects with rate_limited, or with cannot_run when the known tokens exceed the limit of a whole minute. */
  async reserve(who: string, { known, estimated }: TokenCost): Promise<Reservation> {
    const limit = this.#limiter.points;
    if (known > limit) {
      throw new SidaError({
        code: 'cannot_run',
        message: `The request may use ${known} tokens; the limit is ${limit} tokens a minute`,
        details: { tokens: known, limit },
      });
    }
    // The reservation is capped at the limit, so that an estimate alone never makes a request impossible.
    const tokens = Math.min(known + estimated, limit);
    const { msBeforeNext, remainingPoints } = await this.#consume(who, tokens);
    const windowEnd = performance.now() + withinMinute(msBeforeNext);
    return {
      allowance: { limit, remaining: remainingPoints, resetSeconds: seconds(msBeforeNext) },
      settle: async (used) => {
        if (used > tokens) await this.#limiter.penalty(who, used - tokens);
        // Tokens charged to a minute that has ended give no credit in the next one.
        else if (used < tokens && performance.now() < windowEnd) {
          await this.#limiter.reward(who, tokens - used);
        }
      },
    };
  }

  async #consume(who: string, tokens: number): Promise<RateLimiterRes> {
    try {
      return await this.#limiter.consume(who, tokens);
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal;
      // The library also charges a request that it refuses. Return the tokens, so that smaller requests still fit.
      await this.#limiter.reward(who, tokens);
      const limit = this.#limiter.points;
      const remaining = Math.max(0, limit - (refusal.consumedPoints - tokens));
      throw new RateLimited(tokens, { limit, remaining, resetSeconds: seconds(refusal.msBeforeNext) });
    }
  }
}

/** A rate_limited error that carries the values of the rate-limit headers. */
export class RateLimited extends SidaError {
  readonly allowance: Allowance;

  constructor(tokens: number, allowance: Allowance) {
    const { limit, remaining, resetSeconds } = allowance;
    super({
      code: 'rate_limited',
      message:
        `The request reserves ${tokens} tokens; ${remaining} of ${limit} tokens a minute are left, ` +
        `and the minute ends in ${resetSeconds} s`,
      details: { tokens, limit, remaining, retry_after_s: resetSeconds },
    });
    this.allowance = allowance;
  }
}

/** The library reckons with the wall clock, which may have been changed since the minute began. */
function withinMinute(ms: number): number {
  return Math.min(MINUTE_S * 1000, Math.max(0, ms));
}

function seconds(ms: number): number {
  return Math.max(1, Math.ceil(withinMinute(ms) / 1000));
}
