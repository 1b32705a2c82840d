/** A quoter of a model with two layers of 4 experts, which has measured nothing. */

import type { StackCost } from '../../src/quote/pass-rates.js';
import { Quoter } from '../../src/quote/quoter.js';

export const STACK: StackCost = { layerExperts: [4, 4], topK: 1, dense: 800, expertBytes: 100 };

export function newQuoter(): Quoter {
  return new Quoter({ stacks: [STACK, STACK], maxBatchTokens: 64, experts: 16, bytesPerSecond: 0 });
}
