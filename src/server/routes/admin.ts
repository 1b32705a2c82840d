import type { DeviceUsage } from '../../native/addon-types.js';
import { control } from '../context.js';
import { BudgetAnswer, BudgetRequest, ExpertsAnswer } from '../schemas/admin.js';
import { ErrorAnswer } from '../schemas/error.js';
import { bodyRoute, type Route } from './route.js';

export const getExperts: Route = {
  method: 'get',
  path: '/admin/experts',
  scope: 'admin',
  summary: 'Where each expert is, by MoE layer',
  answers: { 200: { description: 'Residency of every expert', schema: ExpertsAnswer } },
  async handle(context, _req, res) {
    const { layers } = await control(context, { kind: 'experts' });
    res.json({ layers } satisfies typeof ExpertsAnswer._output);
  },
};

export const getBudget: Route = {
  method: 'get',
  path: '/admin/budget',
  scope: 'admin',
  summary: 'The budgets and their use',
  answers: { 200: { description: 'Budgets in bytes', schema: BudgetAnswer } },
  async handle(context, _req, res) {
    const { usage } = await control(context, { kind: 'usage' });
    res.json(budgetAnswer(usage));
  },
};

export const putBudget = bodyRoute({
  method: 'put',
  path: '/admin/budget',
  scope: 'admin',
  summary: 'Changes the device budget; answers when the new one holds',
  body: BudgetRequest,
  answers: {
    200: { description: 'The new budget holds', schema: BudgetAnswer },
    422: { description: 'It is below the smallest workable budget; nothing changed', schema: ErrorAnswer },
  },
  async handle(context, _req, res, { device }) {
    const { usage } = await control(context, { kind: 'set-budget', device });
    context.logger.info(
      { requestId: res.locals.requestId, device, bytes: usage.budgetBytes },
      'budget changed',
    );
    res.json(budgetAnswer(usage));
  },
});

function budgetAnswer({ host, ...device }: DeviceUsage): typeof BudgetAnswer._output {
  return {
    device: {
      budget_bytes: device.budgetBytes,
      used_bytes: device.usedBytes,
      peak_bytes: device.peakBytes,
      smallest_bytes: device.smallestBytes,
    },
    host: { budget_bytes: host.budgetBytes, used_bytes: host.usedBytes },
  };
}
