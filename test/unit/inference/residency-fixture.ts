import type { Residency } from '../../../src/native/addon-types.js';

export interface ExpertRow {
  state: number;
  pinned: number;
  uses: number;
  loadedAt: number;
  useRate: number;
}

/** Of the one layer. */
const TURNS = 50;

export function residencyOf(rows: Partial<ExpertRow>[], slots = rows.length): Residency {
  const column = (name: keyof ExpertRow, standard: number) => rows.map((row) => row[name] ?? standard);
  const state = Uint8Array.from(column('state', 2));
  return {
    state,
    pinned: Uint8Array.from(column('pinned', 0)),
    uses: Float64Array.from(column('uses', 0)),
    loadedAt: Float64Array.from(column('loadedAt', 0)),
    turns: new Float64Array(rows.length).fill(TURNS),
    lastTurn: new Float64Array(rows.length).fill(TURNS),
    useRate: Float64Array.from(column('useRate', 0)),
    useRateNeeded: Float64Array.from(column('useRate', 0), (rate) => rate + (1 - rate) / 6),
    useRateUnneeded: Float64Array.from(column('useRate', 0), (rate) => rate - rate / 6),
    slots,
    freeSlots: slots - state.filter((value) => value !== 0).length,
    visits: TURNS,
  };
}
