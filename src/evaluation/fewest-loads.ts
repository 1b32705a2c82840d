/** Belady's rule (MIN) with the whole future in view: nothing loads less. */

/**
 * Experts loaded over visits, each the flat ids that a layer needs, by a device of `slots`. As in the expert store a
 * visit takes those at hand first, and an expert may go once it has computed. `experts`: of the model, all layers.
 * `onLoad` is told the expert and the visit, from 0.
 */
export function fewestLoads(
  visits: readonly (readonly number[])[],
  experts: number,
  slots: number,
  onLoad?: (id: number, visit: number) => void,
): number {
  const turns = turnsOf(visits, experts);
  /** Place in `turns` of the next use. */
  const place = new Int32Array(experts);
  const held = new Uint8Array(experts);
  const next = Float64Array.from(turns, (own) => own[0] ?? visits.length);
  let [size, loads] = [0, 0];
  for (const [visit, ids] of visits.entries()) {
    for (const id of ids) {
      place[id]! += 1;
      next[id] = turns[id]![place[id]!] ?? visits.length;
    }
    // Where a visit needs more than there are slots, those needed soonest come last and stay.
    const missing = ids.filter((id) => held[id] === 0).sort((a, b) => next[b]! - next[a]!);
    for (const id of missing) {
      loads += 1;
      onLoad?.(id, visit);
      if (size === slots) held[farthest(held, next)] = 0;
      else size += 1;
      held[id] = 1;
    }
  }
  return loads;
}

/** The visits that need each expert, ascending. */
function turnsOf(visits: readonly (readonly number[])[], experts: number): number[][] {
  const turns: number[][] = Array.from({ length: experts }, () => []);
  visits.forEach((ids, turn) => {
    for (const id of ids) turns[id]!.push(turn);
  });
  return turns;
}

function farthest(held: Uint8Array, next: Float64Array): number {
  let victim = -1;
  for (let id = 0; id < held.length; id++) {
    if (held[id] !== 0 && (victim < 0 || next[id]! > next[victim]!)) victim = id;
  }
  return victim;
}
