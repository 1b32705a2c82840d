/** Splits one device budget between the models of a server. */
import { SidaError } from '../errors.js';
import type { MemoryPlan } from '../native/addon-types.js';
import type { BudgetShare } from '../protocol/engine-messages.js';
import { formatBytes } from '../text/bytes.js';
import { listed } from '../text/listed.js';

export interface PlannedModel {
  name: string;
  plan: Pick<MemoryPlan, 'smallest' | 'expertBytes'>;
}

/**
 * Gives every model its smallest workable budget, and a share of the rest in proportion to the bytes of its experts.
 * Throws budget_too_small when `total` is below the sum of the smallest.
 */
export function splitBudget(total: number, models: readonly PlannedModel[]): number[] {
  const least = models.reduce((sum, { plan }) => sum + plan.smallest, 0);
  if (total < least) {
    const each = models.map(({ name, plan }) => `${name} ${sized(plan.smallest)}`);
    throw new SidaError({
      code: 'budget_too_small',
      message: `A budget of ${sized(total)} is too small for ${models.length} models, which need ${sized(least)} together: ${listed(each, 'and')}`,
      param: 'memory-budget',
      details: { budget_bytes: total, smallest_bytes: least },
    });
  }
  const experts = models.reduce((sum, { plan }) => sum + plan.expertBytes, 0);
  return models.map(({ plan }) => plan.smallest + Math.floor((total - least) * (plan.expertBytes / experts)));
}

/** Throws budget_too_small when `bytes` for one model are more than the others leave. */
export function checkShared(bytes: number, { total, others }: BudgetShare): void {
  const free = total - others;
  if (bytes <= free) return;
  throw new SidaError({
    code: 'budget_too_small',
    message: `A budget of ${sized(bytes)} does not fit: the models share ${sized(total)}, the others have ${sized(others)}, and ${sized(free)} are left`,
    param: 'device',
    details: { budget_bytes: bytes, shared_bytes: total, others_bytes: others, free_bytes: free },
  });
}

function sized(bytes: number): string {
  return `${bytes} bytes (${formatBytes(bytes)})`;
}
