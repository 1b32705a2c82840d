import { loadTimes } from './load-times.js';
import type { EvictionPolicy } from './policy.js';

/** Loaded last first: keeps what came first, which suits a cyclic walk over more experts than slots. */
export const lifo: EvictionPolicy = { usesForecast: false, newestFirst: true, rank: loadTimes };
