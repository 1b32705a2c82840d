/**
 * The rule of fairness. Keys share the engine: next is the key that has least of it, and the key that has most gives
 * way. What runs ends, so each key has its turn. What a key sends has an order of its own (due-time.ts).
 */

/** What waits or runs for a key. */
export interface Turn {
  /** Names the key; empty without keys. */
  readonly owner: string;
  /** What came later has a larger number. */
  readonly order: number;
  /** See due-time.ts. */
  readonly dueMs: number;
}

/**
 * The key that has least is next, and of its requests or jobs the one that is due first. Of keys that have as much, the
 * one that has waited longest is next. `of` tells what a key has.
 */
export function nextTurn<Each extends Turn>(
  waiting: Iterable<Each>,
  of: (owner: string) => number,
): Each | undefined {
  const keys = new Map<string, { first: Each; oldest: number }>();
  for (const each of waiting) {
    const key = keys.get(each.owner);
    if (key === undefined) keys.set(each.owner, { first: each, oldest: each.order });
    else {
      if (isBefore(each, key.first)) key.first = each;
      if (each.order < key.oldest) key.oldest = each.order;
    }
  }
  let next: { first: Each; oldest: number; has: number } | undefined;
  for (const [owner, { first, oldest }] of keys) {
    const has = of(owner);
    const more = has - (next?.has ?? Number.POSITIVE_INFINITY);
    if (next === undefined || more < 0 || (more === 0 && oldest < next.oldest)) next = { first, oldest, has };
  }
  return next?.first;
}

/** Whether `a` is due before `b`. */
export function isBefore(a: Omit<Turn, 'owner'>, b: Omit<Turn, 'owner'>): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
}

/**
 * The youngest of the key that has most of them; among several such keys, the youngest of all. The oldest of all is
 * therefore chosen only if it is the only one, so it never gives way and ends. Then another is the oldest, and so all
 * end. `ofOwner` counts those of its key, itself included.
 */
export function lastTurn<Each extends Omit<Turn, 'dueMs'>>(
  running: readonly Each[],
): { each: Each; ofOwner: number } | undefined {
  const owners = new Map<string, { each: Each; ofOwner: number }>();
  for (const each of running) {
    const { each: youngest = each, ofOwner = 0 } = owners.get(each.owner) ?? {};
    owners.set(each.owner, { each: each.order > youngest.order ? each : youngest, ofOwner: ofOwner + 1 });
  }
  let last: { each: Each; ofOwner: number } | undefined;
  for (const found of owners.values()) {
    const more = found.ofOwner - (last?.ofOwner ?? 0);
    if (last === undefined || more > 0 || (more === 0 && found.each.order > last.each.order)) last = found;
  }
  return last;
}
