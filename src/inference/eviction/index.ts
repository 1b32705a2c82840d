import type { EvictionPolicyName } from '../../protocol/engine-messages.js';
import { expertBuffering } from './expert-buffering.js';
import { farthestNextUse } from './farthest-next-use.js';
import { fifo } from './fifo.js';
import { lfu } from './lfu.js';
import { lru } from './lru.js';
import type { EvictionPolicy } from './policy.js';

export const EVICTION_POLICIES: Record<EvictionPolicyName, EvictionPolicy> = {
  'farthest-next-use': farthestNextUse,
  lru,
  fifo,
  lfu,
  'expert-buffering': expertBuffering,
};
