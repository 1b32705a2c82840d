/** Which running input gives up its KV pages when there are too few. */
import type { RunningInput } from './running-input.js';

export interface GivingWay {
  input: RunningInput;
  /** Inputs of its owner that could give way, itself included. */
  ofOwner: number;
}

/**
 * The youngest input of the owner that has most of them; among several such owners, the youngest of all. The oldest of
 * all is therefore chosen only if it is the only one, so it never gives way and ends. Then another is the oldest, and
 * so every input ends.
 */
export function givingWay(growing: readonly RunningInput[]): GivingWay | undefined {
  const owners = new Map<string, GivingWay>();
  for (const input of growing) {
    const { input: youngest = input, ofOwner = 0 } = owners.get(input.owner) ?? {};
    owners.set(input.owner, {
      input: input.order > youngest.order ? input : youngest,
      ofOwner: ofOwner + 1,
    });
  }
  let chosen: GivingWay | undefined;
  for (const each of owners.values()) {
    const more = each.ofOwner - (chosen?.ofOwner ?? 0);
    if (chosen === undefined || more > 0 || (more === 0 && each.input.order > chosen.input.order))
      chosen = each;
  }
  return chosen;
}
