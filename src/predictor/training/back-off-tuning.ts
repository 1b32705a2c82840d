/** Tunes, on held-out records, how a token's own counts are weighted against the layer's frequencies. */
import type { RoutingShape } from '../hash-function.js';
import { bestExperts, type TeacherRecord } from '../teacher.js';
import { backedOff, type TokenCounts } from './token-counts.js';

/** (stacks) of (layers). The layer's frequencies count as this many extra occurrences of every token. */
export type BackOffWeights = readonly (readonly number[])[];

/** Weight of chances if nothing is held out, and of α. */
export const BACK_OFF_WEIGHT = 0.5;
const WEIGHTS = [0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32] as const;

/**
 * Returns the weights under which the held-out experts are most likely. No record of `heldOut` may have been counted.
 */
export function tuneBackOff(
  shape: RoutingShape,
  counts: readonly TokenCounts[],
  heldOut: readonly TeacherRecord[],
): BackOffWeights {
  const { experts: perLayer, topK } = shape;
  return shape.stacks.map(({ layers }, stack) => {
    const seen = heldOut.map((record) => ({
      tokens: record.stacks[stack]!.tokens,
      chosen: bestExperts(record, stack, topK),
    }));
    return Array.from({ length: layers }, (_, layer) => {
      let best = { weight: BACK_OFF_WEIGHT, loss: Number.POSITIVE_INFINITY };
      for (const weight of WEIGHTS) {
        let loss = 0;
        for (const { tokens, chosen } of seen) {
          for (let t = 0; t < tokens.length; t++) {
            const from = (layer * tokens.length + t) * topK;
            for (let i = from; i < from + topK; i++) {
              const entry = layer * perLayer + chosen[i]!;
              loss -= Math.log(backedOff(counts[stack]!, tokens[t]!, 'wins', entry, weight));
            }
          }
        }
        if (loss > 0 && loss < best.loss) best = { weight, loss };
      }
      return best.weight;
    });
  });
}
