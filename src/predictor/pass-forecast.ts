/** The forecast of one pass from its hash tables: the experts it will need and, if the tables route, its routing. */
import { SidaError } from '../errors.js';
import type { NativeRouting, TableNeeds } from '../native/addon-types.js';
import { type HashTable, TABLE_READY } from '../protocol/hash-table.js';

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
