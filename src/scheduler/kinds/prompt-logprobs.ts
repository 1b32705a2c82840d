/** Log-probabilities of a prompt's own tokens. Each row of the prompt tells how likely the token after it was. */

import type { GeneratedToken } from '../../protocol/inference-messages.js';
import { assertFiniteLogprobs, type PassAnswer } from '../pass-batch.js';
import { type Feed, followedRows } from './feed.js';

/**
 * A feed that also reports each token of its prompt from the second on, with the `top` most likely tokens in its place.
 * `report` gets each token once, also when the prompt is computed again after it gave way.
 */
export function withPromptLogprobs(
  feed: Feed,
  top: number,
  report: (tokens: GeneratedToken[]) => void,
): Feed {
  const { tokens, input } = feed;
  const { item } = input;
  let reported = 0;
  return {
    ...feed,
    promptTop: top,
    queries: (begin, count) => {
      return followedRows(tokens, begin, count).map((row) => ({ row: row - begin, token: tokens[row + 1]! }));
    },
    take(begin, count, answer) {
      const { picked, logprobs } = answer;
      assertFiniteLogprobs(logprobs);
      const rows = followedRows(tokens, begin, count);
      const ranked = top === 0 ? [] : picked.slice(0, rows.length);
      const found = rows.map((row, i): GeneratedToken => {
        const own = { logprob: logprobs[i]!, top: ranked[i]?.top ?? [] };
        return { item, choice: 0, id: tokens[row + 1]!, ofPrompt: true, logprobs: own };
      });
      report(found.filter((_, i) => rows[i]! >= reported));
      reported = Math.max(reported, begin + count);
      feed.take(begin, count, { ...answer, picked: picked.slice(ranked.length) } satisfies PassAnswer);
    },
  };
}
