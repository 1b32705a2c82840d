/** Copies table rows into another order. */
import type { HashTable } from '../protocol/hash-table.js';

type Rows = Pick<HashTable, 'layers' | 'tokens' | 'k' | 'experts' | 'alpha' | 'chance'>;

/** In every layer, copies row r of `from` to row rows[r] of `to`. */
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

/** In every layer, copies row rows[r] of `from` to row r of `to`, whose k is at least as large. */
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
