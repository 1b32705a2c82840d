import type { DeviceUsage } from '../../native/addon-types.js';
import type { MemorySplit } from '../../protocol/engine-messages.js';
import type { GovernorFigures } from '../../protocol/governor-figures.js';
import { control } from '../context.js';
import { chosenModel, ModelQuery } from '../model-query.js';
import { BudgetAnswer, BudgetRequest, ExpertsAnswer, PredictorAnswer } from '../schemas/admin.js';
import { ErrorAnswer } from '../schemas/error.js';
import { bodyRoute, type Route } from './route.js';

export const getExperts: Route = {
  method: 'get',
  path: '/admin/experts',
  scope: 'admin',
  summary: 'Where each expert is, by MoE layer',
  answers: { 200: { description: 'Residency of every expert', schema: ExpertsAnswer } },
  query: ModelQuery,
  async handle(context, req, res) {
    const { layers } = await control(chosenModel(context, req), { kind: 'experts' });
    res.json({ layers } satisfies typeof ExpertsAnswer._output);
  },
};

export const getPredictor: Route = {
  method: 'get',
  path: '/admin/predictor',
  scope: 'admin',
  summary: 'What names experts ahead at present, and what it saves',
  answers: { 200: { description: 'State of prediction', schema: PredictorAnswer } },
  query: ModelQuery,
  async handle(context, req, res) {
    const model = chosenModel(context, req);
    const { governors } = await control(model, { kind: 'predictor' });
    res.json({
      function: model.engine.model?.predictor.name ?? null,
      ...governed(governors.tables),
      look_ahead: governed(governors.look_ahead),
    } satisfies typeof PredictorAnswer._output);
  },
};

function governed({ on, state, gain, arms, switches, pauseSeconds }: GovernorFigures) {
  const governor: 'on' | 'off' = on ? 'on' : 'off';
  return { governor, state, gain, measured: arms, switches, pause_seconds: pauseSeconds };
}

export const getBudget: Route = {
  method: 'get',
  path: '/admin/budget',
  scope: 'admin',
  summary: 'The budgets and their use',
  answers: { 200: { description: 'Budgets in bytes', schema: BudgetAnswer } },
  query: ModelQuery,
  async handle(context, req, res) {
    const { usage, split } = await control(chosenModel(context, req), { kind: 'usage' });
    res.json(budgetAnswer(usage, split));
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
    422: {
      description:
        'It is below the smallest workable budget, or above what other models leave of a shared one; nothing changed',
      schema: ErrorAnswer,
    },
  },
  query: ModelQuery,
  async handle(context, req, res, { device }) {
    const served = chosenModel(context, req);
    const { name: model } = served;
    const { sharedBudget } = context;
    const request = { kind: 'set-budget' as const, device };
    const { usage, split } =
      sharedBudget === undefined || model === undefined
        ? await control(served, request)
        : await control(served, request, () =>
            sharedBudget.change(model, request, (own) => served.engine.control(own)),
          );
    context.logger.info(
      {
        requestId: res.locals.requestId,
        ...(model !== undefined && { model }),
        device,
        bytes: usage.budgetBytes,
      },
      'budget changed',
    );
    res.json(budgetAnswer(usage, split));
  },
});

function budgetAnswer(
  { host, ...device }: DeviceUsage,
  { kv, experts }: MemorySplit,
): typeof BudgetAnswer._output {
  return {
    device: {
      budget_bytes: device.budgetBytes,
      used_bytes: device.usedBytes,
      peak_bytes: device.peakBytes,
      smallest_bytes: device.smallestBytes,
      kv: { used_bytes: kv.used, cached_bytes: kv.cached, free_bytes: kv.free },
      experts: { slot_bytes: experts.slots, resident_bytes: experts.resident },
    },
    host: { budget_bytes: host.budgetBytes, used_bytes: host.usedBytes },
  };
}
