/** Which recall of its tables a model's predictor is judged by. */
import { hitRanks } from '../predictor/hit-ranks.js';

/** How many of the names that a table gives a token are looked at: the first and the last of hitRanks(). */
export function recallWidths(topK: number): { narrow: number; wide: number } {
  const ranks = hitRanks(topK);
  return { narrow: ranks[0]!, wide: ranks.at(-1)! };
}
