/** Rows of tables in another order, or together. */
import type { HashTable } from './hash-table.js';

type Rows = Pick<HashTable, 'layers' | 'tokens' | 'k' | 'experts' | 'alpha' | 'chance'>;

/** Row r of `from` becomes row rows[r] of `to`, in every layer. */
export function copyRows(from: Rows, rows: readonly number[], to: Rows): void {
  const { k } = from;
  for (const name of ['experts', 'alpha', 'chance'] as const) {
    for (let layer = 0; layer < from.layers; layer++) {
      rows.forEach((row, r) => {
        const at = (layer * from.tokens + r) * k;
        to[name].set(from[name].subarray(at, at + k), (layer * to.tokens + row) * k);
      });
    }
  }
}

/** Row rows[r] of `from` becomes row r of `to`, whose k is at least as large, in every layer. */
export function takeRows(from: Rows, rows: readonly number[], to: Rows): void {
  for (const name of ['experts', 'alpha', 'chance'] as const) {
    for (let layer = 0; layer < from.layers; layer++) {
      rows.forEach((row, r) => {
        const at = (layer * from.tokens + row) * from.k;
        to[name].set(from[name].subarray(at, at + from.k), (layer * to.tokens + r) * to.k);
      });
    }
  }
}

/** The tokens of `parts` one after the other become those of `to`. */
export function joinRows(parts: readonly Rows[], to: Rows): void {
  let begin = 0;
  for (const { layers, tokens, k, ...from } of parts) {
    for (const name of ['experts', 'alpha', 'chance'] as const) {
      for (let layer = 0; layer < layers; layer++) {
        const rows = from[name].subarray(layer * tokens * k, (layer + 1) * tokens * k);
        to[name].set(rows, (layer * to.tokens + begin) * k);
      }
    }
    begin += tokens;
  }
}
