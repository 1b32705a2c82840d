import { loadTimes } from './load-times.js';
import type { EvictionPolicy } from './policy.js';

/** Evicts the expert loaded last. It keeps early loads, which suits a cyclic walk over more experts than slots. */
export const lifo: EvictionPolicy = { usesForecast: false, newestFirst: true, rank: loadTimes };
