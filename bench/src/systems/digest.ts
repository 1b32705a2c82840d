/** What is read off a run whatever drives it: speeds, memory, and a digest of its answers' bits. */
import { createHash } from 'node:crypto';
import type { MemoryPlan } from '../../../dist/native/addon-types.js';
import { quantile, sum } from '../support/statistics.js';

/** A label is one letter or digit. */
const MOST_LABELS = 36;

export interface MeasuredRun {
  /** Of each sentence. */
  scores: readonly (readonly number[])[];
  /** Of each batch. */
  milliseconds: readonly number[];
  wallMs: number;
}

export function figuresOf(
  { scores, milliseconds, wallMs }: MeasuredRun,
  inputs: readonly ArrayLike<number>[],
  plan: Pick<MemoryPlan, 'experts' | 'slot'>,
  { slots, budgetBytes }: { slots: number; budgetBytes: number },
) {
  const digest = createHash('sha256');
  for (const own of scores) digest.update(Float64Array.from(own));
  const labels = scores.map((own) => own.indexOf(Math.max(...own)).toString(MOST_LABELS));
  return {
    ...{ sentences: inputs.length, tokens: sum(inputs.map((tokens) => tokens.length)), wallMs },
    ...{ p50Ms: quantile(milliseconds, 0.5), p95Ms: quantile(milliseconds, 0.95) },
    ...{ slots, experts: plan.experts, slotBytes: plan.slot, budgetBytes },
    ...{ digest: digest.digest('hex'), answers: labels.join('') },
  };
}
