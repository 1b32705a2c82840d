/** Reads hash tables as forecasts of the experts that MoE layers will need. */
import type { TableNeeds } from '../native/addon-types.js';
import { type BatchTables, type HashTable, openHashTable, TABLE_READY } from '../protocol/hash-table.js';

const ids = new WeakMap<SharedArrayBuffer, number>();
let lastId = 0;

/** `firstLayer` is the flat number of the table's first layer. Empty unless the table is ready. */
export function needsOf(table: HashTable | null, firstLayer: number): TableNeeds[] {
  if (table?.state !== TABLE_READY) return [];
  const { buffer, expertsPerLayer: layerExperts, need } = table;
  return [{ id: idOf(buffer), firstId: firstLayer * layerExperts, layerExperts, need }];
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
