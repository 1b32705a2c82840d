/** Bytes of a budget as the user wrote it, once the model's memory plan is known. */
import { SidaError } from '../errors.js';
import type { MemoryPlan } from '../native/addon-types.js';
import { parseBytes, parseShare } from './bytes.js';

/** A share means that share of the experts' bytes plus what the rest needs, and always leaves room for one slot. */
export function deviceBudgetBytes(budget: string, plan: MemoryPlan): number {
  const share = parseShare(budget);
  if (share !== undefined) return Math.max(plan.smallest, plan.fixed + Math.floor(share * plan.expertBytes));
  return wholeBytes(budget);
}

export function hostBudgetBytes(budget: string, plan: MemoryPlan): number {
  const share = parseShare(budget);
  return share === undefined ? wholeBytes(budget) : Math.floor(share * plan.expertBytes);
}

function wholeBytes(budget: string): number {
  const bytes = parseBytes(budget);
  if (bytes !== undefined) return bytes;
  const message = `Expected a size such as 2GiB, 700MB or 50%, but got ${JSON.stringify(budget)}`;
  throw new SidaError({ code: 'invalid_request', message });
}

/** Slots for experts that a budget leaves; 0 when it is below the smallest workable one. */
export function slotsWithin(budgetBytes: number, plan: MemoryPlan): number {
  if (budgetBytes < plan.smallest) return 0;
  return Math.min(plan.experts, Math.floor((budgetBytes - plan.fixed) / plan.slot));
}
