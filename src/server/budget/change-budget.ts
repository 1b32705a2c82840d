/** Changes the budget of a model, with a line in its log. */
import type { ControlReply } from '../../protocol/engine-messages.js';
import { type BudgetChange, control, type ModelContext, type ServerContext } from '../context.js';

/** Changes of a model's budget that are kept. */
const MOST_CHANGES = 50;

type Who = Pick<BudgetChange, 'by' | 'key'> & { requestId?: string };

export async function changeBudget(
  { sharedBudget, logger }: Pick<ServerContext, 'sharedBudget' | 'logger'>,
  served: ModelContext,
  device: string,
  { by, key, requestId }: Who,
): Promise<Extract<ControlReply, { kind: 'set-budget' }>> {
  const { name: model, budgetChanges } = served;
  const request = { kind: 'set-budget' as const, device };
  // An engine that is replaced starts with the last budget that it had.
  const before = budgetChanges.at(-1)?.to ?? served.engine.model?.usage.budgetBytes;
  const reply =
    sharedBudget === undefined || model === undefined
      ? await control(served, request)
      : await control(served, request, () =>
          sharedBudget.change(model, request, (own) => served.engine.control(own)),
        );
  const to = reply.usage.budgetBytes;
  const change: BudgetChange = { time: Date.now(), from: before ?? to, to, by, key };
  budgetChanges.splice(0, budgetChanges.length + 1 - MOST_CHANGES);
  budgetChanges.push(change);
  const about = { ...(requestId !== undefined && { requestId }), ...(model !== undefined && { model }) };
  logger.info({ ...about, device, from: change.from, bytes: to, by }, 'budget changed');
  return reply;
}
