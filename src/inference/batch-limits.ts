/** Selects what decides the memory of an engine beside its model. */
import type { BatchLimits } from '../native/addon-types.js';
import type { EngineConfig } from '../protocol/engine-messages.js';

type Sized = Pick<
  EngineConfig,
  'maxBatchTokens' | 'kvTokens' | 'kv' | 'kvWindows' | 'threads' | 'activations' | 'device' | 'routing'
> & { routingK?: number | null | undefined };

export function batchLimits(config: Sized): BatchLimits {
  const { maxBatchTokens, kvTokens, kv, kvWindows, threads, activations, device, routing, routingK } = config;
  return {
    maxBatchTokens,
    kvTokens,
    kv,
    kvWindows,
    threads,
    activations,
    device,
    ...(typeof routingK === 'number' && { maxRoutingK: routingK }),
    routers: routing === 'exact',
  };
}
