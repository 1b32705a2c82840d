/** Opens the native engine with budgets in the form that users write. */
import { autoBudget, budgetBytes, checkBudget, hostBudgetBytes } from '../config/budget.js';
import type { EngineConfig } from '../config/engine-config.js';
import { freeMemory } from '../machine/free-memory.js';
import { loadAddon } from '../native/addon.js';
import type { Activations, BatchLimits, Engine, EngineOptions } from '../native/addon-types.js';

/** The options that decide the memory of an engine, besides its model. */
export type Sized = Pick<
  EngineConfig,
  'maxBatchTokens' | 'kv' | 'kvWindows' | 'kvStates' | 'threads' | 'device' | 'routing'
> &
  Partial<Pick<EngineConfig, 'routingK' | 'cudaGraphs' | 'predictor' | 'predictorDevice'>> & {
    kvTokens: number;
    activations: Activations;
  };

export function batchLimits(config: Sized): BatchLimits {
  const { maxBatchTokens, kvTokens, kv, kvWindows, kvStates, threads, ...rest } = config;
  const { activations, device, routing, routingK, cudaGraphs, predictor, predictorDevice } = rest;
  return {
    maxBatchTokens,
    kvTokens,
    kv,
    kvWindows,
    kvStates,
    threads,
    activations,
    device,
    ...(routingK !== undefined && { maxRoutingK: routingK }),
    routers: routing === 'exact',
    devicePasses: cudaGraphs !== 'off',
    devicePredictor: predictorDevice === 'cuda' && predictor !== 'none',
  };
}

export interface OpenEngineOptions
  extends Omit<EngineOptions, 'budgetBytes' | 'hostBudgetBytes' | 'linkBandwidth' | 'linkLatency'> {
  /** Device memory: `auto`, a size (`2GiB`), or a share (`50%`) of the experts' bytes plus what the rest needs. */
  memoryBudget: string;
  /** Host tier: a size, or a share of the experts' bytes. */
  hostBudget: string;
  /** Bandwidth and latency of a simulated link, in bytes per second and seconds. Default: no simulated link. */
  linkBandwidth?: number;
  linkLatency?: number;
}

/** Throws budget_too_small with the bytes needed, pack_invalid, or invalid_request if a budget cannot be parsed. */
export function openEngine(options: OpenEngineOptions): Engine {
  const { memoryBudget, hostBudget, linkBandwidth = 0, linkLatency = 0, ...rest } = options;
  const { pack, readDepth: _, readChunkBytes: __, policy: ___, cpuExperts: ____, ...limits } = rest;
  const addon = loadAddon();
  const plan = addon.planMemory({ pack }, limits);
  const budget =
    memoryBudget === 'auto'
      ? autoBudget(plan, freeMemory(rest.device ?? 'cpu'))
      : budgetBytes(memoryBudget, plan);
  return new addon.Engine({
    ...rest,
    linkBandwidth,
    linkLatency,
    budgetBytes: checkBudget(budget, plan),
    hostBudgetBytes: hostBudgetBytes(hostBudget, plan),
  });
}
