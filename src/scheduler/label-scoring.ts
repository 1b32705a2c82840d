/** Scores the labels of one input: determines the log-probabilities its passes must return, and sums them. */
import type { ScoringPlan, ScoringTarget } from '../protocol/item-work.js';
import { assertFiniteLogprobs, type TokenQuery } from './pass-batch.js';

/** Collects the log-probabilities of one input's labels. */
export class LabelScores {
  /** (labels, steps) */
  readonly #logprobs: number[][];

  constructor(labels: number) {
    this.#logprobs = Array.from({ length: labels }, () => []);
  }

  set(target: ScoringTarget, logprob: number): void {
    this.#logprobs[target.label]![target.step] = logprob;
  }

  /** Sums each label in token order, so that the result does not depend on how rows were shared. */
  sums(): number[] {
    return this.#logprobs.map((steps) => steps.reduce((sum, logprob) => sum + logprob, 0));
  }
}

export class LabelScoring {
  readonly plan: ScoringPlan;
  readonly #scores: LabelScores;

  constructor(plan: ScoringPlan) {
    this.plan = plan;
    this.#scores = new LabelScores(plan.labels);
  }

  /** Takes the log-probabilities of `targets`, in order. Throws nonfinite_output. */
  take(targets: readonly ScoringTarget[], logprobs: Float64Array): void {
    assertFiniteLogprobs(logprobs);
    targets.forEach((target, i) => {
      this.#scores.set(target, logprobs[i]!);
    });
  }

  /** Summed log-probability of each label. Call it once all targets have been taken. */
  sums(): number[] {
    return this.#scores.sums();
  }
}

/** Selects the targets within the tokens [begin, begin + count) of a plan's input. Query rows count from `begin`. */
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
