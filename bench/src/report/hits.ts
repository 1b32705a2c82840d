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

/** Mean error of α over its mean, where the first expert is right, token-weighted; undefined where it is not known. */
export function alphaErrorOf(layers: readonly LayerReport[], name: string): number | undefined {
  let [error, alpha] = [0, 0];
  for (const { tokens, alpha: mean, functions } of layers) {
    const own = functions[name]?.alphaError;
    if (own === undefined || own === null) return undefined;
    error += tokens * own;
    alpha += tokens * mean;
  }
  return alpha === 0 ? undefined : error / alpha;
}
