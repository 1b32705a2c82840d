/**
 * Equation 2 of SiDA-MoE (MLSys 2024, section 3.4.1): how probable it is that a token goes to another expert when
 * other tokens of its input are changed at random, if a change of any of its `critical` tokens sends it elsewhere, and
 * of no other.
 */

/** What the paper draws in figure 6. */
export const CRITICAL = [1, 2, 3, 4] as const;
/** The most that a fit looks at. */
export const MOST_CRITICAL = 32;

/**
 * 1 − C(others − critical, changed) / C(others, changed): the chance that at least one of the `critical` tokens is
 * among the `changed` ones of all `others`. No more than all others can be critical.
 */
export function changeProbability(others: number, changed: number, critical: number): number {
  let spared = 1;
  for (let i = 0; i < Math.min(critical, others); i++) spared *= Math.max(0, others - changed - i) / (others - i);
  return 1 - spared;
}

/** Means of equation 2 over tokens of inputs that differ in length. */
export class ExpectedChanges {
  #tokens = 0;
  readonly #sums = new Float64Array(MOST_CRITICAL + 1);

  add(tokens: number, others: number, changed: number): void {
    this.#tokens += tokens;
    for (let c = 0; c <= MOST_CRITICAL; c++) this.#sums[c]! += tokens * changeProbability(others, changed, c);
  }

  /** The probability with this many critical tokens. */
  of(critical: number): number {
    return this.#sums[critical]! / Math.max(1, this.#tokens);
  }

  /** The number of critical tokens whose probability is nearest to a measured share. */
  nearest(measured: number): number {
    let best = 0;
    for (let c = 1; c <= MOST_CRITICAL; c++)
      if (Math.abs(this.of(c) - measured) < Math.abs(this.of(best) - measured)) best = c;
    return best;
  }
}
