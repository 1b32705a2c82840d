/** Converts budgets from the user's text to bytes. This needs the model's memory plan. */

import { SidaError } from '../errors.js';
import type { MemoryPlan } from '../native/addon-types.js';
import { parseBytes, parseShare } from '../text/bytes.js';

/** Device budget: bytes, or a share of the experts' bytes plus what the rest needs. */
export function budgetBytes(text: string, plan: MemoryPlan): number {
  const share = parseShare(text);
  if (share === undefined) return size(text);
  return Math.max(plan.smallest, plan.fixed + Math.ceil(share * plan.expertBytes));
}

/** Host budget: bytes, or a share of the experts' bytes. */
export function hostBudgetBytes(text: string, plan: MemoryPlan): number {
  const share = parseShare(text);
  return share === undefined ? size(text) : Math.ceil(share * plan.experts * plan.block);
}

function size(text: string): number {
  const bytes = parseBytes(text);
  if (bytes !== undefined) return bytes;
  const message = `Expected a size such as 2GiB, 700MB or 50%, found ${JSON.stringify(text)}`;
  throw new SidaError({ code: 'invalid_request', message, param: 'device' });
}
