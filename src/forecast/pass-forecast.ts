/** What hash tables forecast of a pass: the experts that it will need and, if the tables route, its routing. */
import { SidaError } from '../errors.js';
import type { NativeRouting, TableNeeds } from '../native/addon-types.js';
import {
  type BatchTables,
  createHashTable,
  type HashTable,
  openHashTable,
  TABLE_READY,
} from '../protocol/hash-table.js';
import { fillNeed } from './expert-need.js';

/** The row of a table that describes each token of a pass. */
export interface TableRows {
  table: HashTable;
  /** (tokens of the pass), the table's row for each token. */
  rows: Int32Array;
}

export interface PassForecast {
  /** Of the pass's MoE layers. */
  own: readonly TableNeeds[];
  /** Of the later passes of the same batch. */
  behind: readonly TableNeeds[];
  /** Null if there is no table. */
  predicted: TableRows | null;
  /** Experts per token if the table routes; 0 if the model's routers do. */
  routingK: number;
}

/**
 * `rows` lists the table's tokens in the order of the pass, which is their own by default. Returns null if the table is
 * not ready.
 */
export function tableRows(table: HashTable | null, rows?: readonly number[]): TableRows | null {
  if (table?.state !== TABLE_READY) return null;
  return { table, rows: Int32Array.from(rows ?? Array(table.tokens).keys()) };
}

/** Returns the first `k` entries of each token as the pass's routing. */
export function routingOf({ table, rows }: TableRows, k: number): NativeRouting {
  const kept = Math.min(k, table.k);
  const experts = new Uint16Array(table.layers * rows.length * kept);
  const alpha = new Float32Array(experts.length);
  for (let layer = 0; layer < table.layers; layer++) {
    for (let t = 0; t < rows.length; t++) {
      const from = (layer * table.tokens + rows[t]!) * table.k;
      const to = (layer * rows.length + t) * kept;
      experts.set(table.experts.subarray(from, from + kept), to);
      alpha.set(table.alpha.subarray(from, from + kept), to);
    }
  }
  return { experts, alpha, k: kept };
}

/** Returns the forecast for `tokens` tokens from `first` on. `own` and `behind` remain those of the whole pass. */
export function partOf(known: PassForecast, first: number, tokens: number): PassForecast {
  const { predicted } = known;
  if (predicted === null) return known;
  return { ...known, predicted: { ...predicted, rows: predicted.rows.subarray(first, first + tokens) } };
}

export function cannotRoute(): SidaError {
  return new SidaError({
    code: 'cannot_run',
    message: 'The predictor cannot name the experts of this input, and nothing else routes it',
  });
}

const ids = new WeakMap<SharedArrayBuffer, number>();
let lastId = 0;

/** `firstLayer` is the flat number of the table's first layer. Empty unless the table is ready. */
export function needsOf(table: HashTable | null, firstLayer: number): TableNeeds[] {
  if (table?.state !== TABLE_READY) return [];
  return [{ id: idOf(table.buffer), layer: firstLayer, need: table.need }];
}

/** A table has one id, however often its buffer is opened. */
function idOf(buffer: SharedArrayBuffer): number {
  let id = ids.get(buffer);
  if (id === undefined) {
    id = ++lastId;
    ids.set(buffer, id);
  }
  return id;
}

/** One table per stack; null for a stack without a table. */
export type OpenTables = readonly (HashTable | null)[];

export function openTables(tables: BatchTables | null): OpenTables {
  return (tables ?? []).map((buffer) => buffer && openHashTable(buffer));
}

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
