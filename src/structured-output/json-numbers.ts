/** Numbers within bounds, as EBNF: the library's own rules let numbers beyond a bound through. */

/** So few that every reader of JSON gets the number that was compared. */
export const DIGITS = 15;
/** Of whole numbers, which are compared exactly. Those of 64 bits have so many. */
export const WHOLE_DIGITS = 19;

export const INTEGER = `"0" | "-"? [1-9] [0-9]{0,${WHOLE_DIGITS - 1}}`;
export const NUMBER = `"-"? ("0" | [1-9] [0-9]{0,${DIGITS - 1}}) ("." [0-9]{1,${DIGITS}})? ([eE] [+-]? [0-9]{1,2})?`;

export interface Bound {
  /** May be infinite. */
  value: number;
  inclusive: boolean;
}

/** `none` is the value of a missing bound. */
export function stricter(inclusive: number | undefined, exclusive: number | undefined, none: number): Bound {
  const [own = none, other = none] = [inclusive, exclusive];
  const wins = none < 0 ? own > other : own < other;
  return { value: wins ? own : other, inclusive: wins };
}

/**
 * The bound in units of the last place. `step` leads to the next number within. Beyond 53 bits, JavaScript has rounded
 * what the schema says: the bound is as much stricter as it may have lost.
 */
export function scaled({ value, inclusive }: Bound, places: number, step: bigint, digits: number): bigint {
  const limited = Math.max(-(10 ** digits), Math.min(value, 10 ** digits));
  const text = limited.toFixed(places);
  if (limited === value && Math.abs(value) >= 2 ** 53 && places === 0)
    return BigInt(text) + step * BigInt(Math.ceil(Math.abs(value) / 2 ** 53));
  const beyond = (Number(text) - limited) * Number(step);
  return BigInt(text.replace('.', '')) + (beyond > 0 || (beyond === 0 && inclusive) ? 0n : step);
}
