/** Chooses, on held-out records, how far a token's own counts are trusted. */
import { layersOf, type RoutingShape, SIDES, type Side } from '../hash-function.js';
import { bestExperts, type TeacherRecord } from './teacher.js';
import { backedOff, type TokenCounts } from './token-counts.js';

/** Layer frequencies count as so many occurrences of every token; one weight for each layer of a side. */
export type BackOffWeights = Record<Side, readonly number[]>;

/** Of chances where nothing is held out, and of α. */
export const BACK_OFF_WEIGHT = 0.5;
const WEIGHTS = [0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32] as const;

/** The weights under which the held-out experts are most likely; none of `heldOut` may have been counted. */
export function tuneBackOff(
  shape: RoutingShape,
  counts: Record<Side, TokenCounts>,
  heldOut: readonly TeacherRecord[],
): BackOffWeights {
  const weights = { encoder: [] as number[], decoder: [] as number[] };
  for (const side of SIDES) {
    const seen = heldOut.map((record) => ({
      tokens: record[side].tokens,
      best: bestExperts(record, side),
    }));
    for (let layer = 0; layer < layersOf(shape, side); layer++) {
      let best = { weight: BACK_OFF_WEIGHT, loss: Number.POSITIVE_INFINITY };
      for (const weight of WEIGHTS) {
        let loss = 0;
        for (const { tokens, best: experts } of seen) {
          for (let t = 0; t < tokens.length; t++) {
            const entry = layer * shape.experts + experts[layer * tokens.length + t]!;
            loss -= Math.log(backedOff(counts[side], tokens[t]!, 'wins', entry, weight));
          }
        }
        if (loss > 0 && loss < best.loss) best = { weight, loss };
      }
      weights[side].push(best.weight);
    }
  }
  return weights;
}
