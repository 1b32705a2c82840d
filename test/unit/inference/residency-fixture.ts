import fc from 'fast-check';
import type { Residency } from '../../../src/native/addon-types.js';

export interface ExpertRow {
  state: number;
  pinned: number;
  uses: number;
  lastUse: number;
  loadedAt: number;
}

export function residencyOf(rows: Partial<ExpertRow>[], slots = rows.length): Residency {
  const column = (name: keyof ExpertRow, standard: number) => rows.map((row) => row[name] ?? standard);
  const state = Uint8Array.from(column('state', 2));
  return {
    state,
    pinned: Uint8Array.from(column('pinned', 0)),
    uses: Float64Array.from(column('uses', 0)),
    lastUse: Float64Array.from(column('lastUse', 0)),
    loadedAt: Float64Array.from(column('loadedAt', 0)),
    slots,
    freeSlots: slots - state.filter((value) => value !== 0).length,
    visits: 100,
  };
}

const tick = fc.oneof(fc.nat(5), fc.nat(1_000_000), fc.maxSafeNat());

export const anyResidency = fc
  .array(fc.record({ state: fc.nat(3), pinned: fc.nat(1), uses: tick, lastUse: tick, loadedAt: tick }), {
    maxLength: 300,
  })
  .map((rows) => residencyOf(rows));
