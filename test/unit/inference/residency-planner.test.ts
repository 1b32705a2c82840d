import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EVICTION_POLICIES } from '../../../src/inference/eviction/index.js';
import { planResidency } from '../../../src/inference/residency-planner.js';
import {
  createHashTable,
  createUnknownTable,
  type HashTable,
  NO_EXPERT,
  TABLE_EXACT,
} from '../../../src/predictor/hash-table.js';
import { anyResidency, candidates, residencyOf } from './residency-fixture.js';

const PER_LAYER = 4;

/** One row of expert indices for each layer. */
function tableOf(rows: number[][]): HashTable {
  const tokens = rows[0]!.length;
  const table = createHashTable({ batchId: 0, layers: rows.length, tokens, k: 1, kind: TABLE_EXACT });
  table.experts.set(rows.flat());
  return table;
}

const plan = (table: HashTable, upcoming: HashTable[], residency: ReturnType<typeof residencyOf>) =>
  planResidency({ table, upcoming, residency, expertsPerLayer: PER_LAYER, policy: EVICTION_POLICIES.lru });

describe('residency planner', () => {
  it('plans nothing for an unknown table', () => {
    const { loads, victims } = plan(createUnknownTable(1, 2, 9), [], residencyOf([{}, {}]));
    expect([loads.length, victims.length]).toEqual([0, 0]);
  });

  it('loads what the table names and is absent, in layer order, once each', () => {
    const residency = residencyOf([...Array(8).keys()].map((id) => ({ state: id === 1 ? 2 : 0 })));
    const { loads } = plan(
      tableOf([
        [3, 1, 3, 0],
        [2, NO_EXPERT, 0, 2],
      ]),
      [],
      residency,
    );
    expect([...loads]).toEqual([3, 0, 6, 4]);
  });

  it('never offers what the batch needs, and offers last what the next batches need', () => {
    const residency = residencyOf([...Array(8).keys()].map((id) => ({ lastUse: id + 1 })));
    const { victims } = plan(
      tableOf([
        [0, 1],
        [0, 0],
      ]),
      [
        tableOf([
          [2, 2],
          [1, 3],
        ]),
      ],
      residency,
    );
    expect([...victims]).toEqual([3, 6, 2, 5, 7]);
  });

  it('never loads more than the slots hold, nor offers a pinned or absent expert', () => {
    const rows = fc.array(fc.constantFrom(0, 1, 2, 3, NO_EXPERT), { minLength: 3, maxLength: 3 });
    const table = fc.array(rows, { minLength: 2, maxLength: 2 }).map(tableOf);
    fc.assert(
      fc.property(
        table,
        fc.array(table, { maxLength: 3 }),
        anyResidency,
        fc.nat(8),
        (now, next, some, slots) => {
          const experts = [...Array(8).keys()];
          const full = residencyOf(
            experts.map((id) => ({ state: some.state[id] ?? 0, pinned: some.pinned[id] ?? 0 })),
            slots,
          );
          const { loads, victims } = plan(now, next, full);
          expect(loads.every((id) => full.state[id] === 0)).toBe(true);
          expect(loads.length).toBeLessThanOrEqual(slots);
          expect(new Set(victims).size).toBe(victims.length);
          expect(victims.every((id) => candidates(full).includes(id) && !loads.includes(id))).toBe(true);
        },
      ),
    );
  });
});
