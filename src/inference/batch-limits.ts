/** Selects what decides the memory of an engine beside its model. */
import type { EngineConfig } from '../config/engine-config.js';
import type { BatchLimits } from '../native/addon-types.js';

type Sized = Pick<
  EngineConfig,
  'maxBatchTokens' | 'kvTokens' | 'kv' | 'kvWindows' | 'threads' | 'activations' | 'device' | 'routing'
> &
  Partial<Pick<EngineConfig, 'routingK'>>;

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
    ...(routingK !== undefined && { maxRoutingK: routingK }),
    routers: routing === 'exact',
  };
}
