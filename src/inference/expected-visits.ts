/** Hash tables as the visits of layers that they foretell. */
import { type HashTable, openHashTable, TABLE_READY } from '../predictor/hash-table.js';
import type { BatchTables } from './messages.js';
import type { ExpectedVisit } from './residency-planner.js';

/** `firstLayer`: flat number of the table's first layer. */
export function visitsOf(table: HashTable | null, firstLayer: number): ExpectedVisit[] {
  if (table === null || table.state !== TABLE_READY) return [];
  const { layers, expertsPerLayer: experts, need } = table;
  return Array.from({ length: layers }, (_, layer) => ({
    firstId: (firstLayer + layer) * experts,
    need: need.subarray(layer * experts, (layer + 1) * experts),
  }));
}

export interface OpenTables {
  encoder: HashTable | null;
  decoder: HashTable | null;
}

export function openTables(tables: BatchTables | null): OpenTables {
  return {
    encoder: tables && openHashTable(tables.encoder),
    decoder: tables?.decoder ? openHashTable(tables.decoder) : null,
  };
}
