/** From which chance of need on a load pays before a layer asks for it: least_chance() of pass_needs.h. */
import type { LinkState } from '../../../src/inference/link-load.js';

export type { LinkState };

/** A need that is as likely as this is as good as known: its load takes the link sooner, and no longer. */
const KNOWN = 0.95;
/** However idle the link is, rarer needs are not loaded for. */
const RARE = 0.1;

/**
 * The least chance of need at which a load pays before its layer asks for it. The victim is needed again in
 * `victimUse` visits.
 *
 * With T the time of a load, a right load saves the part of T in which the link would have idled: T · (1 - busy). A
 * wrong one delays the link's other loads, T · busy, and brings back its victim if that would have stayed until its
 * next use, T · stay / (stay + victimUse).
 */
export function leastChance({ busy, stay }: LinkState, victimUse: number): number {
  const use = Math.max(0, victimUse);
  const returns =
    use === Number.POSITIVE_INFINITY ? 0 : stay === Number.POSITIVE_INFINITY ? 1 : stay / (stay + use + 1);
  return Math.min(KNOWN, Math.max(RARE, (busy + returns) / (1 + returns)));
}
