/** The rule that finds the end of learning: the held-out loss has almost stopped improving. */

/** Times that the `plateau` schedule lowers the learning rate instead of ending the training. */
const PLATEAU_FALLS = 2;

/** What the rule looks at in an evaluation. */
export interface LossAt {
  epoch: number;
  heldOut: { loss: number };
  plateau?: true;
}

interface PlateauRule {
  /** Least improvement in percent. 0 turns the rule off. */
  until: number;
  /** Epochs over which it must be reached. */
  untilEpochs: number;
  schedule: string;
}

/**
 * Whether the lowest held-out loss has improved by less than `until` percent over the last `untilEpochs` epochs. Looks
 * at the end of an epoch only, and not before as many epochs after the last such plateau.
 */
export function reachesPlateau({ until, untilEpochs }: PlateauRule, evaluations: readonly LossAt[]): boolean {
  const epoch = evaluations.at(-1)?.epoch ?? 0;
  if (until === 0 || !Number.isInteger(epoch)) return false;
  const since = evaluations.findLast(({ plateau }) => plateau)?.epoch ?? 0;
  const before = epoch - untilEpochs;
  if (before < since) return false;
  const lowest = (of: typeof evaluations) => Math.min(...of.map(({ heldOut }) => heldOut.loss));
  const earlier = lowest(evaluations.filter((evaluation) => evaluation.epoch <= before));
  return earlier - lowest(evaluations) < (until / 100) * Math.abs(earlier);
}

/** How often the learning rate has fallen. */
export function fallsOf(evaluations: readonly LossAt[]): number {
  return evaluations.filter(({ plateau }) => plateau).length;
}

/** Whether training ends: the last plateau is one that lowers the rate no more. */
export function endsAtPlateau({ schedule }: PlateauRule, evaluations: readonly LossAt[]): boolean {
  return fallsOf(evaluations) > (schedule === 'plateau' ? PLATEAU_FALLS : 0);
}
