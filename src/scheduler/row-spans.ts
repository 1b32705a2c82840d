/** Joins rows of several tables into the table of one pass. A pass may mix prompt chunks with single tokens. */
import { fillNeed } from '../predictor/expert-need.js';
import { createHashTable, type HashTable, TABLE_READY } from '../protocol/hash-table.js';

/**
 * `count` rows of a pass, described by a table's tokens from `row` on; `table` is null if no table describes them.
 */
export interface RowSpan {
  table: HashTable | null;
  row: number;
  count: number;
}

/**
 * Returns null if no ready table describes any row. A row without a table lists no expert. Spans that are a whole table
 * give that table.
 */
export function joinSpans(given: readonly RowSpan[], routingK: number): HashTable | null {
  const spans = merged(given);
  const ready = spans.filter(({ table }) => table?.state === TABLE_READY);
  const like = ready[0]?.table;
  if (!like) return null;
  if (spans.length === 1 && spans[0]!.count === like.tokens) return like;
  const tokens = spans.reduce((sum, { count }) => sum + count, 0);
  const { layers, k, expertsPerLayer } = like;
  const joined = createHashTable({ batchId: 0, layers, tokens, k, expertsPerLayer });
  let to = 0;
  for (const { table, row, count } of spans) {
    if (table?.state === TABLE_READY) copySpan(table, row, count, joined, to);
    to += count;
  }
  fillNeed(joined, routingK);
  joined.settle(TABLE_READY);
  return joined;
}

/** Makes one span of those that follow each other in a table, and leaves out those without rows. */
function merged(spans: readonly RowSpan[]): RowSpan[] {
  const all: RowSpan[] = [];
  for (const span of spans) {
    if (span.count === 0) continue;
    const last = all.at(-1);
    if (last !== undefined && last.table === span.table && last.row + last.count === span.row) {
      last.count += span.count;
    } else all.push({ ...span });
  }
  return all;
}

function copySpan(from: HashTable, row: number, count: number, to: HashTable, toRow: number): void {
  const { layers, k } = from;
  for (const name of ['experts', 'alpha', 'chance'] as const) {
    for (let layer = 0; layer < layers; layer++) {
      const at = (layer * from.tokens + row) * k;
      to[name].set(from[name].subarray(at, at + count * k), (layer * to.tokens + toRow) * k);
    }
  }
}
