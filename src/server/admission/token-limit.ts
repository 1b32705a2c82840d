/** Tokens a minute: reserved when a request comes, settled when it is known what it used. */
import { type RateLimiterAbstract, RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { SidaError } from '../../errors.js';
import type { TokenCost } from '../../tasks/shared/token-estimates.js';

export interface Allowance {
  limit: number;
  remaining: number;
  /** Until the minute ends. */
  resetSeconds: number;
}

interface Reservation {
  allowance: Allowance;
  /** Charges what was used instead of what was reserved. */
  settle(used: number): Promise<void>;
}

export const MINUTE_S = 60;

/** Counts in this process. */
export function memoryLimiter(tokensPerMinute: number): RateLimiterAbstract {
  return new RateLimiterMemory({ points: tokensPerMinute, duration: MINUTE_S });
}

export class TokenLimit {
  readonly #limiter: RateLimiterAbstract;

  /** `limiter` has the tokens of a minute as its points. */
  constructor(limiter: RateLimiterAbstract) {
    this.#limiter = limiter;
  }

  /** Rejects with rate_limited, or with cannot_run when a whole minute would not be enough. */
  async reserve(who: string, { known, estimated }: TokenCost): Promise<Reservation> {
    const limit = this.#limiter.points;
    if (known > limit) {
      throw new SidaError({
        code: 'cannot_run',
        message: `The request may use ${known} tokens; the limit is ${limit} tokens a minute`,
        details: { tokens: known, limit },
      });
    }
    // An estimate alone makes no request impossible.
    const tokens = Math.min(known + estimated, limit);
    const { msBeforeNext, remainingPoints } = await this.#consume(who, tokens);
    const windowEnd = performance.now() + msBeforeNext;
    return {
      allowance: { limit, remaining: remainingPoints, resetSeconds: seconds(msBeforeNext) },
      settle: async (used) => {
        if (used > tokens) await this.#limiter.penalty(who, used - tokens);
        // What was charged to a minute that has ended is no credit for the next one.
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
      // The library charges what it refuses; a large request must not keep smaller ones out.
      await this.#limiter.reward(who, tokens);
      const limit = this.#limiter.points;
      const remaining = Math.max(0, limit - (refusal.consumedPoints - tokens));
      throw new RateLimited(tokens, { limit, remaining, resetSeconds: seconds(refusal.msBeforeNext) });
    }
  }
}

/** A refusal that knows what the headers of its answer say. */
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

function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}
