/** The native engine of a pack, as the engine process of `sida serve` opens it. */
import type { SizedConfig } from '../../../dist/config/engine-config.js';
import { openEngine } from '../../../dist/inference/open-engine.js';
import type { Engine } from '../../../dist/native/addon-types.js';

export function openServedEngine(config: SizedConfig, pack: string): Engine {
  const { maxBatchTokens, kvTokens, kv, kvWindows, kvStates, activations, threads, device, cudaGraphs } = config;
  const { memoryBudget, hostBudget, linkBandwidth, linkLatencyMs, policy } = config;
  return openEngine({
    ...{ pack, maxBatchTokens, kvTokens, kv, kvWindows, kvStates, activations, threads, device },
    devicePasses: cudaGraphs !== 'off',
    ...{ memoryBudget, hostBudget, linkBandwidth, linkLatency: linkLatencyMs / 1000, policy },
  });
}
