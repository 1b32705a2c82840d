/** The native engine of a pack, as the engine process of `sida serve` would open it. */
import { budgetBytes, hostBudgetBytes } from '../../../dist/config/budget.js';
import { loadAddon } from '../../../dist/native/addon.js';
import type { Engine } from '../../../dist/native/addon-types.js';
import type { EngineConfig } from '../../../dist/protocol/engine-messages.js';

export function openEngine(config: EngineConfig, pack: string): Engine {
  const addon = loadAddon();
  const { maxBatchTokens, kvTokens, threads, device, linkBandwidth, linkLatencyMs } = config;
  const limits = { maxBatchTokens, kvTokens, threads, device };
  const plan = addon.planMemory({ pack }, limits);
  return new addon.Engine({
    ...limits,
    pack,
    budgetBytes: budgetBytes(config.memoryBudget, plan),
    hostBudgetBytes: hostBudgetBytes(config.hostBudget, plan),
    linkBandwidth,
    linkLatency: linkLatencyMs / 1000,
  });
}
