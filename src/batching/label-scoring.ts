/** Scores the labels of one input: names the log-probabilities that its passes must give, and sums them. */
import type { ScoringPlan, ScoringTarget } from '../protocol/item-work.js';
import { assertFiniteLogprobs, type TokenQuery } from './pass-batch.js';
import { LabelScores } from './scoring-plan.js';

export class LabelScoring {
  readonly plan: ScoringPlan;
  readonly #scores: LabelScores;

  constructor(plan: ScoringPlan) {
    this.plan = plan;
    this.#scores = new LabelScores(plan.labels);
  }

  /** Takes the log-probabilities of `targets`, in order; throws nonfinite_output. */
  take(targets: readonly ScoringTarget[], logprobs: Float64Array): void {
    assertFiniteLogprobs(logprobs);
    targets.forEach((target, i) => {
      this.#scores.set(target, logprobs[i]!);
    });
  }

  /** Of each label, once all targets are in. */
  sums(): number[] {
    return this.#scores.sums();
  }
}

/** The targets of what a plan feeds: tokens [begin, begin + count) of its `input`, rows from 0. */
export function targetsWithin(
  { rows }: ScoringPlan['inputs'][number],
  begin: number,
  count: number,
): { targets: ScoringTarget[]; queries: TokenQuery[] } {
  const within = rows.filter(({ position }) => position >= begin && position < begin + count);
  const targets = within.flatMap((row) => row.targets);
  const queries = within.flatMap(({ position, targets: asked }) =>
    asked.map(({ token }) => ({ row: position - begin, token })),
  );
  return { targets, queries };
}
