/** Copies table rows into another order. */
import type { NamedExperts } from './hash-function.js';

interface Rows extends NamedExperts {
  layers: number;
  tokens: number;
}

/** In every layer, copies row from[i] of `source` to row to[i] of `target`. Both have the same k. */
export function copyRows(source: Rows, from: Iterable<number>, target: Rows, to: readonly number[]): void {
  const { k, layers } = source;
  const rows = [...from];
  for (const name of ['experts', 'alpha', 'chance'] as const) {
    for (let layer = 0; layer < layers; layer++) {
      rows.forEach((row, i) => {
        const at = (layer * source.tokens + row) * k;
        target[name].set(source[name].subarray(at, at + k), (layer * target.tokens + to[i]!) * k);
      });
    }
  }
}
