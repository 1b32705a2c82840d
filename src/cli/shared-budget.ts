/** Gives each model of a server its part of a budget that they share. */

import { splitBudget } from '../config/budget.js';
import { engineConfig } from '../config/engine-config.js';
import type { ServedModels } from '../config/served-models.js';
import { memoryPlans } from '../engine/memory-plans.js';
import { SharedBudget } from '../server/shared-budget.js';

interface BudgetedModels extends Pick<ServedModels, 'models'> {
  /** Undefined where each model has a budget of its own. */
  sharedBudget: SharedBudget | undefined;
}

/** Rejects with budget_too_small when the budget is below the sum of the models' smallest. */
export async function withSharedBudget({ models, sharedBudget }: ServedModels): Promise<BudgetedModels> {
  // Without engines here, the budgets are those of the workers.
  if (sharedBudget === undefined || models[0]!.options.worker === 'none')
    return { models, sharedBudget: undefined };
  const plans = await memoryPlans(models.map(({ options }) => engineConfig(options)));
  const budgets = splitBudget(
    sharedBudget,
    models.map(({ name }, i) => ({ name: name!, plan: plans[i]! })),
  );
  return {
    models: models.map(({ name, options }, i) => ({
      name,
      options: { ...options, memoryBudget: String(budgets[i]) },
    })),
    sharedBudget: new SharedBudget(sharedBudget, new Map(models.map(({ name }, i) => [name!, budgets[i]!]))),
  };
}
