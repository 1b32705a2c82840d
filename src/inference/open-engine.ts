/** Opens the native engine within budgets as users write them. */
import { budgetBytes, hostBudgetBytes } from '../config/budget.js';
import { loadAddon } from '../native/addon.js';
import type { Engine, EngineOptions } from '../native/addon-types.js';

export interface OpenEngineOptions
  extends Omit<EngineOptions, 'budgetBytes' | 'hostBudgetBytes' | 'linkBandwidth' | 'linkLatency'> {
  /** Of the device: a size (`2GiB`), or a share of the experts' bytes plus what the rest needs (`50%`). */
  memoryBudget: string;
  /** Of the host tier: a size, or a share of the experts' bytes. */
  hostBudget: string;
  /** Of a simulated link, bytes per second and seconds; default: none. */
  linkBandwidth?: number;
  linkLatency?: number;
}

/** Throws budget_too_small with the bytes needed, pack_invalid, and invalid_request for a budget that is no size. */
export function openEngine(options: OpenEngineOptions): Engine {
  const { memoryBudget, hostBudget, linkBandwidth = 0, linkLatency = 0, ...rest } = options;
  const { pack, readDepth: _, readChunkBytes: __, ...limits } = rest;
  const addon = loadAddon();
  const plan = addon.planMemory({ pack }, limits);
  return new addon.Engine({
    ...rest,
    linkBandwidth,
    linkLatency,
    budgetBytes: budgetBytes(memoryBudget, plan),
    hostBudgetBytes: hostBudgetBytes(hostBudget, plan),
  });
}
