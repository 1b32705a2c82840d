/**
 * Scores labels that continue their prompt. The last row of the prompt scores the first tokens of the labels, and
 * forks of the prompt's sequence score the other tokens.
 */

import { planTokens, type ScoringPlan } from '../../protocol/item-work.js';
import { LabelScoring, targetsWithin } from '../label-scoring.js';
import type { RunningInput } from '../running-input.js';

import type { Feed } from './feed.js';

/** A prompt without what its task adds. */
export type PromptFeed = Omit<Feed, 'behind' | 'picks' | 'queries' | 'take'>;

interface LabelFeedOptions {
  plan: ScoringPlan;
  prompt: PromptFeed;
  /** Row of the prompt's first label token in its table. */
  row: number;
  newId: () => number;
  /** Receives the labels' feeds once the prompt has run. */
  feed: (labels: Feed[]) => void;
  /** Called once a label's sequence has run completely. */
  release: (sequence: number) => void;
  done: (input: RunningInput, scores: number[]) => void;
}

/** Returns the prompt's feed, which adds the feeds of the labels once it has run. */
export function scoringFeed(options: LabelFeedOptions): Feed {
  const { plan, prompt, feed, done } = options;
  const scoring = new LabelScoring(plan);
  const { length } = prompt.tokens;
  const endsWithin = (begin: number, count: number) => begin + count === length;
  return {
    ...prompt,
    behind: planTokens(plan),
    picks: [],
    queries: (begin, count) =>
      endsWithin(begin, count) ? plan.first.map(({ token }) => ({ row: count - 1, token })) : [],
    take: (begin, count, { logprobs }) => {
      if (!endsWithin(begin, count)) return;
      scoring.take(plan.first, logprobs);
      if (plan.inputs.length === 0) done(prompt.input, scoring.sums());
      else feed(labelFeeds(options, scoring));
    },
  };
}

function labelFeeds(
  { plan, prompt, row, newId, release, done }: LabelFeedOptions,
  scoring: LabelScoring,
): Feed[] {
  let left = plan.inputs.length;
  let begin = row;
  return plan.inputs.map((label): Feed => {
    const sequence = newId();
    const first = begin;
    begin += label.tokens.length;
    return {
      input: prompt.input,
      sequence,
      parent: prompt.sequence,
      tokens: Int32Array.from(label.tokens),
      fed: 0,
      behind: 0,
      table: prompt.table,
      row: first,
      picks: [],
      queries: (at, count) => targetsWithin(label, at, count).queries,
      take: (at, count, { logprobs }) => {
        scoring.take(targetsWithin(label, at, count).targets, logprobs);
        if (at + count < label.tokens.length) return;
        release(sequence);
        left -= 1;
        if (left === 0) done(prompt.input, scoring.sums());
      },
    };
  });
}
