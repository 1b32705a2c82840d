/** Hash tables as the visits of layers that they foretell. */
import { firstMoeLayer } from '../model/model-shape.js';
import type { ModelShape } from '../native/addon-types.js';
import { type HashTable, openHashTable, TABLE_READY } from '../protocol/hash-table.js';
import type { BatchTables } from '../protocol/thread-messages.js';
import type { ExpectedVisit } from '../inference/residency-planner.js';

/** `firstLayer`: flat number of the table's first layer. */
export function visitsOf(table: HashTable | null, firstLayer: number): ExpectedVisit[] {
  if (table === null || table.state !== TABLE_READY) return [];
  const { layers, expertsPerLayer: experts, need } = table;
  return Array.from({ length: layers }, (_, layer) => ({
    firstId: (firstLayer + layer) * experts,
    need: need.subarray(layer * experts, (layer + 1) * experts),
  }));
}

/** By stack. */
export type OpenTables = readonly (HashTable | null)[];

export function openTables(tables: BatchTables | null): OpenTables {
  return (tables ?? []).map((buffer) => buffer && openHashTable(buffer));
}

/** What the tables of a batch say of its passes, stack by stack. */
export function visitsOfTables(tables: OpenTables, shape: Pick<ModelShape, 'stacks'>): ExpectedVisit[] {
  return tables.flatMap((table, stack) => visitsOf(table, firstMoeLayer(shape, stack)));
}
