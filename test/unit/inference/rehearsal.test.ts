import { describe, expect, it } from 'vitest';
import type { LinkState } from '../../../src/inference/link-load.js';
import type { PlannedVisit } from '../../support/reference-planner/planned-visit.js';
import { GOES_AFTER_USE, GOES_NOW, rehearse } from '../../support/reference-planner/rehearsal.js';
import { UNKNOWN_LINK } from '../../support/reference-planner/residency-planner.js';
import { residencyOf } from './residency-fixture.js';

const PER_LAYER = 4;
const FAR = 100;

type Rehearsed = PlannedVisit & { nextUse: readonly number[] };

/** A visit of one layer. Experts without an entry in `nextUse` are next needed at `FAR`. */
function visit(layer: number, needed: number[], nextUse: Record<number, number> = {}, chance = 1): Rehearsed {
  const indices = [0, 1, 2, 3];
  return {
    firstId: layer * PER_LAYER,
    experts: PER_LAYER,
    ids: indices.map((index) => layer * PER_LAYER + index),
    chances: indices.map((index) => (needed.includes(index) ? chance : 0)),
    nextUse: indices.map((index) => nextUse[index] ?? FAR),
  };
}

function residency(resident: number[], slots: number, pinned: number[] = []) {
  const ids = Array.from({ length: 2 * PER_LAYER }, (_, id) => id);
  return residencyOf(
    ids.map((id) => ({ state: resident.includes(id) ? 2 : 0, pinned: Number(pinned.includes(id)) })),
    slots,
  );
}

function run(
  visits: Rehearsed[],
  now: Record<number, number>,
  held: ReturnType<typeof residency>,
  passVisits = visits.length,
  link: Partial<LinkState> = {},
) {
  const nextUse = new Float64Array(2 * PER_LAYER).fill(FAR);
  for (const [id, time] of Object.entries(now)) nextUse[Number(id)] = time;
  const input = {
    visits,
    afterVisit: Float64Array.from(visits.flatMap((each) => each.nextUse)),
    passVisits,
    batchVisits: passVisits,
    layers: 2,
    link: { ...UNKNOWN_LINK, ...link },
    nextUse,
    residency: held,
  };
  const { flags, loads } = rehearse(input);
  const named = (flag: number) => [...flags.keys()].filter((id) => (flags[id]! & flag) !== 0);
  return { now: named(GOES_NOW), afterUse: named(GOES_AFTER_USE), loads: [...loads] };
}

describe('rehearsal', () => {
  it('fills free slots before it evicts', () => {
    const { now, afterUse, loads } = run([visit(0, [0, 1])], { 0: 0, 1: 0 }, residency([0], 2));
    expect({ now, afterUse, loads }).toEqual({ now: [], afterUse: [], loads: [1] });
  });

  it('marks the expert that is needed last for eviction at once', () => {
    const { now, loads } = run([visit(0, [0]), visit(1, [0])], { 0: 0, 4: 1 }, residency([2, 4], 2));
    expect({ now, loads }).toEqual({ now: [2], loads: [0] });
  });

  it('marks an expert that the pass needs and then not for long for eviction after its use', () => {
    const visits = [visit(0, [0], { 0: 50, 1: 9 }), visit(1, [0], { 0: 3 })];
    const { now, afterUse, loads } = run(visits, { 0: 0, 1: 9, 4: 1 }, residency([0, 1], 2));
    expect({ now, afterUse, loads }).toEqual({ now: [], afterUse: [0], loads: [4] });
  });

  it('prefers an expert that is already evictable among those needed in the same later round', () => {
    // After layer 1, its own expert is next needed at 3 and that of layer 0 at 2. Both are in the next round.
    const visits = [visit(0, [0], { 0: 2, 1: 2 }), visit(1, [0, 1], { 0: 3, 1: 3 })];
    const { now, afterUse, loads } = run(visits, { 0: 0, 1: 2, 4: 1, 5: 1 }, residency([0, 1, 4], 3));
    expect({ now, afterUse, loads }).toEqual({ now: [1], afterUse: [1], loads: [5] });
  });

  it('evicts no pinned expert', () => {
    const { now, loads } = run([visit(0, [0])], { 0: 0, 1: 30 }, residency([1, 2], 2, [2]));
    expect({ now, loads }).toEqual({ now: [1], loads: [0] });
  });

  it('lists an expert once that is evicted and loaded again', () => {
    const visits = [visit(0, [0], { 0: 2 }), visit(1, [0]), visit(0, [0], { 0: FAR })];
    const { afterUse, loads } = run(visits, { 0: 0, 4: 1 }, residency([0], 1), 2);
    expect({ afterUse, loads }).toEqual({ afterUse: [0, 4], loads: [4, 0] });
  });

  it('marks an expert for eviction after use as well if the pass may have used it already', () => {
    // Layer 0 has had its turn, so the store uses the key of expert 1 after its use.
    const { now, afterUse } = run(
      [visit(0, [], { 0: 3, 1: 9 }), visit(1, [0])],
      { 0: 3, 1: 9, 4: 1 },
      residency([0, 1], 2),
    );
    expect({ now, afterUse }).toEqual({ now: [1], afterUse: [1] });
  });

  it('does not mark an expert for eviction after its use if it is evicted and reloaded before that use', () => {
    const visits = [visit(0, [0]), visit(1, [0], { 0: 7 }), visit(0, [1], { 1: FAR })];
    const { now, afterUse, loads } = run(visits, { 0: 0, 4: 1, 1: 2 }, residency([1], 1));
    expect({ now, afterUse, loads }).toEqual({ now: [1], afterUse: [0, 4], loads: [0, 4, 1] });
  });

  it('lists a load under way only if it is needed', () => {
    const held = residency([], 4);
    for (const id of [2, 5, 7]) held.state[id] = 1;
    held.freeSlots -= 3;
    const { loads } = run([visit(0, [0, 2]), visit(1, [0, 1])], { 0: 0, 2: 0, 4: 1, 5: 1 }, held);
    expect(loads).toEqual([2, 0, 5, 4]);
  });

  it('streams a layer that needs more experts than there are slots through its own slots', () => {
    const { now, afterUse, loads } = run([visit(0, [0, 1, 2, 3])], { 0: 0 }, residency([0, 4], 2));
    expect(now).toEqual([4]);
    expect(afterUse).toContain(0);
    expect(loads).toEqual([1, 2, 3]);
  });

  it('loads a doubtful need where the link idles, and not over a busy one', () => {
    const doubtful = [visit(0, [0], {}, 0.3)];
    const loads = (busy: number) => run(doubtful, { 0: 30 }, residency([4], 2), 1, { busy, stay: 4 }).loads;
    expect([loads(0.1), loads(0.5), loads(1)]).toEqual([[0], [], []]);
  });

  it('loads a doubtful need in place of an expert that would leave anyway, and not of one that is needed soon', () => {
    const doubtful = [visit(0, [0], {}, 0.3)];
    const loads = (next: number) =>
      run(doubtful, { 0: 30, 4: next }, residency([4], 1), 1, { busy: 0.1, stay: 4 }).loads;
    expect([loads(90), loads(3)]).toEqual([[0], []]);
  });
});
