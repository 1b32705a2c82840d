/** Numbers within bounds, as EBNF: the library's own rules let numbers beyond a bound through. */

/** So few that every reader of JSON gets the number that was compared. */
export const DIGITS = 15;
/** Of whole numbers, which are compared exactly. Those of 64 bits have so many. */
const WHOLE_DIGITS = 19;

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

/** `places` is the number of digits that may stand behind the point. Throws an Error where no number is within. */
export function numbersWithin(least: Bound, most: Bound, places: number): string {
  const opposite = ({ value, inclusive }: Bound) => ({ value: -value, inclusive });
  const from = (bound: Bound, inclusive: boolean) => (bound.value < 0 ? { value: 0, inclusive } : bound);
  const negative = magnitudes(from(opposite(most), false), opposite(least), places);
  const positive = magnitudes(from(least, true), most, places);
  const all = [...negative.map((body) => `"-" ${body}`), ...positive];
  const digits = places === 0 ? WHOLE_DIGITS : DIGITS;
  if (all.length === 0) throw new Error(`its bounds leave no number of at most ${digits} digits`);
  return all.join(' | ');
}

/** Numbers without a sign. */
function magnitudes(least: Bound, most: Bound, places: number): string[] {
  const parts: string[] = [];
  const digits = places === 0 ? WHOLE_DIGITS : DIGITS;
  for (let whole = 1; whole <= digits; whole += 1) {
    const behind = Math.min(places, digits - whole);
    const [low, high] = [scaled(least, behind, 1n, digits), scaled(most, behind, -1n, digits)];
    const first = whole === 1 ? 0n : 10n ** BigInt(whole - 1 + behind);
    const last = 10n ** BigInt(whole + behind) - 1n;
    const [from, to] = [low > first ? low : first, high < last ? high : last];
    const text = (number: bigint) => String(number).padStart(whole + behind, '0');
    if (from <= to) parts.push(`(${digitsBetween(text(from), text(to), whole)})`);
  }
  return parts;
}

/**
 * The bound in units of the last place. `step` leads to the next number within. Beyond 53 bits, JavaScript has rounded
 * what the schema says: the bound is as much stricter as it may have lost.
 */
export function scaled({ value, inclusive }: Bound, places: number, step: bigint, digits = DIGITS): bigint {
  const limited = Math.max(-(10 ** digits), Math.min(value, 10 ** digits));
  const text = limited.toFixed(places);
  if (limited === value && Math.abs(value) >= 2 ** 53 && places === 0)
    return BigInt(text) + step * BigInt(Math.ceil(Math.abs(value) / 2 ** 53));
  const beyond = (Number(text) - limited) * Number(step);
  return BigInt(text.replace('.', '')) + (beyond > 0 || (beyond === 0 && inclusive) ? 0n : step);
}

/** Numbers from `low` to `high`, which have as many digits; `whole` of them stand before the point. */
function digitsBetween(low: string, high: string, whole: number): string {
  const behind = low.length - Math.max(0, whole);
  const zeros = /^0*$/.test(low);
  if (zeros && /^9*$/.test(high)) {
    if (whole < 0) return `[0-9]{0,${behind}}`;
    return `${whole > 0 ? `[0-9]{${whole}}` : '""'}${behind > 0 ? ` ("." [0-9]{1,${behind}})?` : ''}`;
  }
  const parts = whole <= 0 && zeros ? ['""'] : [];
  const add = (from: number, to: number, lowest: string, highest: string) => {
    const digit = `${whole === 0 ? '"." ' : ''}[${from}-${to}]`;
    if (from <= to) parts.push(`${digit} (${digitsBetween(lowest, highest, whole - 1)})`);
  };
  const [first, last, lowRest, highRest] = [Number(low[0]), Number(high[0]), low.slice(1), high.slice(1)];
  const [lowest, highest] = ['0'.repeat(lowRest.length), '9'.repeat(lowRest.length)];
  add(first, first, lowRest, first === last ? highRest : highest);
  add(first + 1, last - 1, lowest, highest);
  if (first < last) add(last, last, lowest, highRest);
  return parts.join(' | ');
}
