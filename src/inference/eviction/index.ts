import type { EvictionPolicyName } from '../../engine/messages.js';
import type { Residency } from '../../native/addon-types.js';
import { fifo } from './fifo.js';
import { lfu } from './lfu.js';
import { lifo } from './lifo.js';
import { lru } from './lru.js';

/** Ranks the experts that may be evicted as flat ids, first victim first. */
export type EvictionPolicy = (residency: Residency) => Uint32Array;

export const EVICTION_POLICIES: Record<EvictionPolicyName, EvictionPolicy> = { lru, fifo, lfu, lifo };
