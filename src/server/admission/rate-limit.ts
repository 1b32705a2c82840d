/**
 * Limits each caller's tokens per minute, or the bytes that its requests move. A request reserves them when it arrives
 * and settles them when it ends.
 */
import { type RateLimiterAbstract, RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { SidaError } from '../../errors.js';
import type { RequestCost } from '../../tasks/shared/token-estimates.js';

/** What a limit counts. */
export type Unit = 'tokens' | 'bytes';

/** What counts for the limits that there are. */
export type Limiters = Partial<Record<Unit, RateLimiterAbstract>>;

export interface Allowance {
  limit: number;
  remaining: number;
  /** Seconds until the minute ends. */
  resetSeconds: number;
}

export interface Reservation {
  allowance: Allowance;
  /** Replaces what was reserved with what was used. */
  settle(used: number): Promise<void>;
}

export const MINUTE_S = 60;

/** A limiter that counts in this process's memory. */
export function memoryLimiter(perMinute: number): RateLimiterAbstract {
  return new RateLimiterMemory({ points: perMinute, duration: MINUTE_S });
}

export class RateLimit {
  readonly #limiter: RateLimiterAbstract;
  readonly #unit: Unit;

  /** One point of `limiter` is one token or byte; its duration is a minute. */
  constructor(limiter: RateLimiterAbstract, unit: Unit = 'tokens') {
    this.#limiter = limiter;
    this.#unit = unit;
  }

  /**
   * Rejects with rate_limited, or with cannot_run when what is known exceeds the limit of a whole minute. `quote` is
   * what the engine has told of the request: part of the refusal.
   */
  async reserve(who: string, { known, estimated }: RequestCost, quote?: Details): Promise<Reservation> {
    const limit = this.#limiter.points;
    if (known > limit) {
      throw new SidaError({
        code: 'cannot_run',
        message: `The request may use ${known} ${this.#unit}; the limit is ${limit} ${this.#unit} a minute`,
        details: { ...quote, [this.#unit]: known, limit },
        ...(quote && { read: true }),
      });
    }
    // The reservation is capped at the limit, so that an estimate alone never makes a request impossible.
    const reserved = Math.min(known + estimated, limit);
    const { msBeforeNext, remainingPoints } = await this.#consume(who, reserved, quote);
    const windowEnd = performance.now() + withinMinute(msBeforeNext);
    return {
      allowance: { limit, remaining: remainingPoints, resetSeconds: seconds(msBeforeNext) },
      settle: async (used) => {
        if (used > reserved) await this.#limiter.penalty(who, used - reserved);
        // What was charged to a minute that has ended gives no credit in the next one.
        else if (used < reserved && performance.now() < windowEnd) {
          await this.#limiter.reward(who, reserved - used);
        }
      },
    };
  }

  async #consume(who: string, reserved: number, quote: Details | undefined): Promise<RateLimiterRes> {
    try {
      return await this.#limiter.consume(who, reserved);
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal;
      // The library also charges a request that it refuses. Return the points, so that smaller requests still fit.
      await this.#limiter.reward(who, reserved);
      const limit = this.#limiter.points;
      const remaining = Math.max(0, limit - (refusal.consumedPoints - reserved));
      const allowance = { limit, remaining, resetSeconds: seconds(refusal.msBeforeNext) };
      throw new RateLimited(this.#unit, reserved, allowance, quote);
    }
  }
}

type Details = Record<string, number>;

/** A rate_limited error that carries the values of the rate-limit headers. */
export class RateLimited extends SidaError {
  readonly unit: Unit;
  readonly allowance: Allowance;

  /** A quote means that the request's texts were encoded. */
  constructor(unit: Unit, reserved: number, allowance: Allowance, quote?: Details) {
    const { limit, remaining, resetSeconds } = allowance;
    super({
      code: 'rate_limited',
      message:
        `The request reserves ${reserved} ${unit}; ${remaining} of ${limit} ${unit} a minute are left, ` +
        `and the minute ends in ${resetSeconds} s`,
      details: { ...quote, [unit]: reserved, limit, remaining, retry_after_s: resetSeconds },
      ...(quote && { read: true }),
    });
    this.unit = unit;
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
