/** Budgets: from the user's text to bytes, and one budget split between the models of a server. */

import { SidaError } from '../errors.js';
import type { MemoryPlan } from '../native/addon-types.js';
import { formatBytes, formatLeast, parseBytes, parseShare } from '../text/bytes.js';
import { listed } from '../text/listed.js';

/** Device budget: bytes, or a share of the experts' bytes plus what the rest needs. */
export function budgetBytes(text: string, plan: MemoryPlan): number {
  const share = parseShare(text);
  if (share === undefined) return size(text);
  return Math.max(plan.smallest, plan.fixed + Math.ceil(share * plan.expertBytes));
}

/** Left free of what the machine has: this share of it, and not less than these bytes. */
const MARGIN_SHARE = 0.1;
const LEAST_MARGIN = 512 * 1024 ** 2;

/** What engines may take of the bytes that are free. */
export function withoutMargin(freeBytes: number): number {
  return Math.max(0, freeBytes - Math.max(LEAST_MARGIN, Math.ceil(freeBytes * MARGIN_SHARE)));
}

/** Device budget where none is given: what is free without the margin, and no more than every expert needs. */
export function autoBudget({ smallest, resident }: MemoryPlan, freeBytes: number): number {
  return Math.max(smallest, Math.min(resident, withoutMargin(freeBytes)));
}

/** Host budget: bytes, or a share of the experts' bytes and what the CPU computes some of them with. */
export function hostBudgetBytes(text: string, plan: MemoryPlan): number {
  const share = parseShare(text);
  return share === undefined ? size(text) : Math.ceil(share * plan.experts * plan.block) + plan.hostWorkspace;
}

function size(text: string): number {
  const bytes = parseBytes(text);
  if (bytes !== undefined) return bytes;
  const message = `Expected a size such as 2GiB, 700MB or 50%, found ${JSON.stringify(text)}`;
  throw new SidaError({ code: 'invalid_request', message, param: 'device' });
}

/** Returns `bytes`. Throws budget_too_small when they are below the smallest budget that works. */
export function checkBudget(bytes: number, plan: MemoryPlan): number {
  const { smallest, driver, dense, routers, kvCache, workspace, slot } = plan;
  if (bytes >= smallest) return bytes;
  const parts = [
    ...(driver > 0 ? [`${formatBytes(driver)} of the GPU's driver`] : []),
    `${formatBytes(dense + routers)} of dense weights and routers`,
    `${formatBytes(kvCache)} of KV cache`,
    `${formatBytes(workspace)} of workspace`,
    `${formatBytes(slot)} for one expert`,
  ];
  throw new SidaError({
    code: 'budget_too_small',
    message: `A budget of ${formatBytes(bytes)} is too small, the smallest that works is ${formatLeast(smallest)}: ${listed(parts, 'and')}. Raise --memory-budget, or lower --max-batch-tokens and --kv-tokens`,
    details: { budget_bytes: bytes, needed_bytes: smallest },
  });
}

interface PlannedModel {
  name: string;
  plan: Pick<MemoryPlan, 'smallest' | 'expertBytes'>;
}

/** What models get of the bytes that they may take: all that they need, if they may. */
export function shareOf(
  most: number,
  models: readonly { name: string; plan: Pick<MemoryPlan, 'smallest' | 'expertBytes' | 'resident'> }[],
): number[] {
  const all = models.map(({ plan }) => plan.resident);
  return most >= sum(all)
    ? all
    : splitBudget(Math.max(most, sum(models.map(({ plan }) => plan.smallest))), models);
}

/** A line that warns of a budget above what the machine has free; undefined for another. */
export function budgetWarning(budget: number, freeBytes: number): string | undefined {
  if (budget <= freeBytes) return undefined;
  return `A budget of ${formatBytes(budget)} is more than the ${formatBytes(freeBytes)} that this machine has free`;
}

/**
 * Gives every model its smallest workable budget, and a share of the rest in proportion to the bytes of its experts.
 * Throws budget_too_small when `total` is below the sum of the smallest.
 */
export function splitBudget(total: number, models: readonly PlannedModel[]): number[] {
  const least = sum(models.map(({ plan }) => plan.smallest));
  if (total < least) {
    const each = models.map(({ name, plan }) => `${name} ${formatLeast(plan.smallest)}`);
    throw new SidaError({
      code: 'budget_too_small',
      message: `A budget of ${formatBytes(total)} is too small for ${models.length} models, which need ${formatLeast(least)} together: ${listed(each, 'and')}`,
      param: 'memory-budget',
      details: { budget_bytes: total, smallest_bytes: least },
    });
  }
  const experts = sum(models.map(({ plan }) => plan.expertBytes));
  return models.map(({ plan }) => plan.smallest + Math.floor((total - least) * (plan.expertBytes / experts)));
}

/** Bytes that the models of a server share, and those that the other models have of them. */
export interface BudgetShare {
  total: number;
  others: number;
}

/** Throws budget_too_small when `bytes` for one model are more than the others leave. */
export function checkShared(bytes: number, { total, others }: BudgetShare): void {
  const free = total - others;
  if (bytes <= free) return;
  throw new SidaError({
    code: 'budget_too_small',
    message: `A budget of ${formatBytes(bytes)} does not fit: the models share ${formatBytes(total)}, the others have ${formatBytes(others)}, and ${formatBytes(free)} are left`,
    param: 'device',
    details: { budget_bytes: bytes, shared_bytes: total, others_bytes: others, free_bytes: free },
  });
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}
