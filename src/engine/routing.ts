/** Whether a request is routed by the model's routers or by hash tables. */
import { SidaError } from '../errors.js';
import type { RoutingMode, RoutingWish } from '../protocol/engine-messages.js';

export interface RoutingLimits {
  /** Of requests that name none; `predicted`: the routers are not on the device. */
  mode: RoutingMode;
  /** Most experts that tables may route a token to. */
  k: number;
  /** Whether there is a predictor. */
  predictor: boolean;
}

/** Experts that tables route each token to; 0: the model's routers do. Throws cannot_run where the server cannot. */
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
