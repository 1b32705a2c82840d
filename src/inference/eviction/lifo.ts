import type { EvictionPolicy } from './index.js';
import { loadTimes } from './load-times.js';

/** Loaded last first: keeps what came first, which suits a cyclic walk over more experts than slots. */
export const lifo: EvictionPolicy = { foresight: false, newestFirst: true, rank: loadTimes };
