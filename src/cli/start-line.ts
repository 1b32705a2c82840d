/** What a served model runs with: one line for people, and the fields of a log line for programs. */
import type { ModelInfo } from '../protocol/engine-messages.js';
import { formatBytes } from '../text/bytes.js';

export function startLine(model: ModelInfo): string {
  const { name, plan, usage, contextTokens, activations, kv, sampling, freeBytes } = model;
  const experts = plan.experts === usage.slots ? `all ${grouped(plan.experts)} experts fit` : someFit(model);
  return [
    name,
    ofFree(usage.budgetBytes, freeBytes),
    ...(plan.driver === 0 ? [] : [`${formatBytes(plan.driver)} of it for the GPU's driver`]),
    ...(plan.experts === 0 ? [] : [experts]),
    `context ${grouped(contextTokens)}`,
    `${activations} activations`,
    `${kv} KV cache`,
    sampling === null ? 'greedy' : 'sampling of the model',
    predictorOf(model),
  ].join(' · ');
}

export function startFields(model: ModelInfo): Record<string, unknown> {
  const { name, plan, usage, contextTokens, kvTokens, activations, kv, sampling, freeBytes, predictor } =
    model;
  return {
    served: name,
    budgetBytes: usage.budgetBytes,
    driverBytes: plan.driver,
    freeBytes,
    slots: usage.slots,
    experts: plan.experts,
    contextTokens,
    kvTokens,
    kv,
    activations,
    sampling,
    predictor: predictor.name,
  };
}

function someFit({ plan, usage }: ModelInfo): string {
  return `${grouped(usage.slots)} of ${grouped(plan.experts)} experts fit`;
}

/** `19.0 of 20.5 GiB free`, with the unit once where both have it. */
function ofFree(budget: number, free: number): string {
  const [part, all] = [formatBytes(budget), formatBytes(free)];
  if (!Number.isFinite(free)) return part;
  const [number, unit] = part.split(' ') as [string, string];
  return `${all.endsWith(` ${unit}`) ? number : part} of ${all} free`;
}

function predictorOf({ predictor: { name, warnings } }: ModelInfo): string {
  if (name !== null) return `predictor ${name}`;
  return warnings.length === 0 ? 'no predictor' : 'WITHOUT the predictor that was asked for (see above)';
}

function grouped(number: number): string {
  return number.toLocaleString('en');
}
