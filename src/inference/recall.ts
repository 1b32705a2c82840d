/** The recall measures by which a model's predictor is judged. */
import { hitRanks } from '../predictor/hit-ranks.js';

/** Numbers of leading table entries to check for a token: the first and the last of hitRanks(). */
export function recallWidths(topK: number): { narrow: number; wide: number } {
  const ranks = hitRanks(topK);
  return { narrow: ranks[0]!, wide: ranks.at(-1)! };
}
