/** Hash hits of a whole model. */
import type { LayerReport } from '../../../dist/evaluation/evaluate.js';

/** Token-weighted mean over layers of the hits at a rank (0: top-1 or recall@k); undefined without the function. */
export function hitsOf(layers: readonly LayerReport[], name: string, rank: number): number | undefined {
  let [tokens, hits] = [0, 0];
  for (const { tokens: count, functions } of layers) {
    const own = functions[name];
    if (own === undefined) return undefined;
    tokens += count;
    hits += count * own.hits[rank]!;
  }
  return tokens === 0 ? undefined : hits / tokens;
}
