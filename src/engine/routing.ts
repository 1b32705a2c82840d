/** Decides whether the model's routers or hash tables route a request. */
import type { RoutingMode } from '../config/engine-options.js';
import { SidaError } from '../errors.js';
import type { RoutingWish } from '../protocol/engine-messages.js';

export interface RoutingLimits {
  /** Mode of requests that do not set one. With `predicted`, the routers are not on the device. */
  mode: RoutingMode;
  /** Most experts per token that tables may route to. */
  k: number;
  /** Whether there is a predictor. */
  predictor: boolean;
}

/**
 * Returns the experts per token if tables route the request, or 0 if the model's routers do. Throws cannot_run if the
 * server does not support the request's routing.
 */
export function routingKOf(wish: RoutingWish | undefined, { mode, k, predictor }: RoutingLimits): number {
  const wanted = wish?.mode ?? mode;
  if (wanted === 'exact') {
    if (wish?.k != null) throw refuse('"routing_k" belongs to predicted routing', 'routing_k');
    if (mode === 'exact') return 0;
    throw refuse('The server was started with --routing predicted: the routers are not loaded', 'routing');
  }
  if (!predictor) {
    throw refuse('Predicted routing needs a predictor, and this server has none: see --predictor', 'routing');
  }
  if (wish?.k != null && wish.k > k) {
    throw refuse(
      `Expected "routing_k" to be at most ${k}, the server's --routing-k, but got ${wish.k}`,
      'routing_k',
    );
  }
  return wish?.k ?? k;
}

function refuse(message: string, param: string): SidaError {
  return new SidaError({ code: 'cannot_run', message, param });
}
