/** When the tokens of streams leave the server. */
import { Histogram, type Registry } from 'prom-client';
import type { CompletionDelta } from '../protocol/engine-messages.js';
import { SECONDS } from './buckets.js';

export interface TokenTimes {
  /**
   * Starts the clock of a stream, for a request that is accepted now. Call what it returns for each delta once its
   * events are written to the connection.
   */
  timeStream(kind: string): (delta: CompletionDelta) => void;
}

/** Called with the milliseconds of what ends now. */
export type OnTime = (kind: 'firstToken' | 'token', ms: number) => void;

export function createTokenTimes(registry: Registry, onTime?: OnTime): TokenTimes {
  const common = { labelNames: ['kind'] as const, buckets: SECONDS, registers: [registry] };
  const first = new Histogram({
    name: 'sida_time_to_first_token_seconds',
    help: 'Seconds of a stream from the acceptance of its request until its first token leaves the server',
    ...common,
  });
  const between = new Histogram({
    name: 'sida_time_between_tokens_seconds',
    help: 'Seconds between two tokens of a choice of a stream that leave the server one after the other',
    ...common,
  });

  return {
    timeStream(kind) {
      const accepted = performance.now();
      const gaps = between.labels({ kind });
      /** When the last token of each choice left. */
      const last = new Map<number, number>();
      return ({ index, tokenIds }) => {
        const now = performance.now();
        if (last.size === 0) {
          first.observe({ kind }, (now - accepted) / 1000);
          onTime?.('firstToken', now - accepted);
        }
        const before = last.get(index);
        last.set(index, now);
        // Tokens that leave together share the time since the one before them.
        const gap = before === undefined ? 0 : (now - before) / tokenIds.length / 1000;
        for (let token = before === undefined ? 1 : 0; token < tokenIds.length; token += 1) gaps.observe(gap);
        if (before !== undefined) onTime?.('token', (now - before) / tokenIds.length);
      };
    },
  };
}
