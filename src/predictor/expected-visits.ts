/** Reads hash tables as forecasts of the experts that each MoE layer will need. */
import { type BatchTables, type HashTable, openHashTable, TABLE_READY } from '../protocol/hash-table.js';

/** One future visit of a MoE layer. */
export interface ExpectedVisit {
  /** Flat id of the layer's first expert. */
  firstId: number;
  /** (experts per layer), probability that the layer will need the expert. */
  need: Float32Array;
}

/** `firstLayer` is the flat number of the table's first layer. */
export function visitsOf(table: HashTable | null, firstLayer: number): ExpectedVisit[] {
  if (table === null || table.state !== TABLE_READY) return [];
  const { layers, expertsPerLayer: experts, need } = table;
  return Array.from({ length: layers }, (_, layer) => ({
    firstId: (firstLayer + layer) * experts,
    need: need.subarray(layer * experts, (layer + 1) * experts),
  }));
}

/** One table per stack; null for a stack without a table. */
export type OpenTables = readonly (HashTable | null)[];

export function openTables(tables: BatchTables | null): OpenTables {
  return (tables ?? []).map((buffer) => buffer && openHashTable(buffer));
}
