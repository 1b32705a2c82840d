/** The sizes that an engine takes from its options, its model and the memory that the machine has free. */
import { isQuantized } from '../checkpoint/weight-format.js';
import { autoBudget, budgetBytes, withoutMargin } from '../config/budget.js';
import type { EngineConfig } from '../config/engine-config.js';
import { SidaError } from '../errors.js';
import { freeMemory } from '../machine/free-memory.js';
import type { Activations, BatchLimits, MemoryPlan, PackFormats } from '../native/addon-types.js';
import { batchLimits, type Sized } from './open-engine.js';

/** Most of the budget that the KV cache takes where no option gives its size, unless few tokens take more. */
const KV_SHARE = 0.1;
/** Contexts below the model's own are multiples of this. */
const CONTEXT_STEP = 1024;

export type SizeOptions = Omit<Sized, 'kvTokens' | 'activations'> &
  Pick<EngineConfig, 'memoryBudget' | 'context' | 'kvTokens' | 'activations'>;

export interface Sizes {
  budgetBytes: number;
  /** Most tokens of one sequence. */
  contextTokens: number;
  /** Tokens of all sequences together. */
  kvTokens: number;
  activations: Activations;
  plan: MemoryPlan;
  /** What the machine has free, the margin included. */
  freeBytes: number;
}

/** Activations are rounded to 8 bits where the weights that they meet are quantized. */
export function activationsOf(
  { activations, device }: Pick<SizeOptions, 'activations' | 'device'>,
  { experts, dense }: PackFormats,
): Activations {
  if (activations !== 'auto') return activations;
  const quantized = [experts, dense].some(isQuantized);
  return quantized && device === 'cpu' ? 'int8' : 'f32';
}

/** `planOf` plans the model with limits. Throws cannot_run for a context that cannot be. */
export function sizesOf(
  planOf: (limits: BatchLimits) => MemoryPlan,
  options: SizeOptions,
  formats: PackFormats,
  freeBytes = freeMemory(options.device),
): Sizes {
  const activations = activationsOf(options, formats);
  const planAt = (kvTokens: number) => planOf(batchLimits({ ...options, activations, kvTokens }));
  const { memoryBudget: written } = options;
  const least = Math.ceil(options.maxBatchTokens * 1.5);
  const base = planAt(options.kvTokens === 'auto' ? least : options.kvTokens);
  const most = written === 'auto' ? withoutMargin(freeBytes) : budgetBytes(written, base);
  const contextTokens = contextOf(options, base, () => tokensWithin(most, base, planAt(2 * least), least));
  const kvTokens = options.kvTokens === 'auto' ? Math.max(contextTokens, least) : options.kvTokens;
  const plan = kvTokens === least ? base : planAt(kvTokens);
  const bytes = written === 'auto' ? autoBudget(plan, freeBytes) : budgetBytes(written, plan);
  return { budgetBytes: bytes, contextTokens, kvTokens, activations, plan, freeBytes };
}

function contextOf(
  { context, kvTokens }: SizeOptions,
  { contextTokens: own }: MemoryPlan,
  held: () => number,
): number {
  if (context === 'auto') {
    const cache = kvTokens === 'auto' ? held() : kvTokens;
    return Math.min(own ?? cache, cache);
  }
  const limit = own !== null && context > own ? `the model's own context of ${own}` : undefined;
  const cache = kvTokens !== 'auto' && context > kvTokens ? `--kv-tokens ${kvTokens}` : undefined;
  const broken = limit ?? cache;
  if (broken === undefined) return context;
  throw new SidaError({ code: 'cannot_run', message: `--context ${context} is more than ${broken}` });
}

/**
 * Tokens in a KV cache that takes its share of `most` bytes, and leaves room for the smallest engine: at least those
 * of `base`, which holds `least`. `twice` holds twice as many.
 */
function tokensWithin(most: number, base: MemoryPlan, twice: MemoryPlan, least: number): number {
  // A model without a context of its own has an encoder, whose inputs one pass takes.
  if (base.contextTokens === null) return least;
  // Windows and recurrent states do not grow with the tokens.
  const room = Math.min(most * KV_SHARE - base.kvCache, most - base.smallest);
  const tokens = least + (room * least) / (twice.smallest - base.smallest);
  return Math.max(least, Math.floor(tokens / CONTEXT_STEP) * CONTEXT_STEP);
}
