/** Log-probabilities of answers. */
import { SidaError } from '../../errors.js';

/** Most log-probabilities in one answer. Each takes a hundred bytes. More would hold the main threads too long. */
const MOST_TOGETHER = 131_072;

/** Checks the size of the answer. `tokens` are those of all choices, and `top` the alternatives of each. */
export function checkLogprobs(tokens: number, top: number | null, param: string): void {
  if (top === null) return;
  const all = tokens * (1 + top);
  if (all <= MOST_TOGETHER) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `Expected at most ${MOST_TOGETHER} log-probabilities in one answer, but ${tokens} tokens of all choices with "${param}" of ${top} are ${all}`,
    param,
    details: { tokens, logprobs: all, limit: MOST_TOGETHER },
  });
}

/** Most tokens that each of `choices` may have. */
export function mostTokensWith(top: number | null, choices: number): number {
  return top === null ? Number.POSITIVE_INFINITY : Math.floor(MOST_TOGETHER / (1 + top) / choices);
}

/** Throws nonfinite_output: JSON has no other numbers. */
export function finiteLogprob(logprob: number | null): number {
  if (logprob !== null && Number.isFinite(logprob)) return logprob;
  throw new SidaError({
    code: 'nonfinite_output',
    message: 'The model gave a log-probability that is not finite',
  });
}
