/** Numbers within bounds, as EBNF: the library's own rules let numbers beyond a bound through. */

/** So few that every reader of JSON gets the number that was compared. */
export const DIGITS = 15;

export const INTEGER = `"0" | "-"? [1-9] [0-9]{0,${DIGITS - 1}}`;
export const NUMBER = `"-"? ("0" | [1-9] [0-9]{0,${DIGITS - 1}}) ("." [0-9]{1,${DIGITS}})? ([eE] [+-]? [0-9]{1,2})?`;

export interface Bound {
  /** May be infinite. */
  value: number;
  inclusive: boolean;
}

/** `places` is the number of digits that may stand behind the point. Throws an Error where no number is within. */
export function numbersWithin(least: Bound, most: Bound, places: number): string {
  const opposite = ({ value, inclusive }: Bound) => ({ value: -value, inclusive });
  const from = (bound: Bound, inclusive: boolean) => (bound.value < 0 ? { value: 0, inclusive } : bound);
  const negative = magnitudes(from(opposite(most), false), opposite(least), places);
  const positive = magnitudes(from(least, true), most, places);
  const all = [...negative.map((body) => `"-" ${body}`), ...positive];
  if (all.length === 0) throw new Error(`its bounds leave no number of at most ${DIGITS} digits`);
  return all.join(' | ');
}

/** Numbers without a sign. */
function magnitudes(least: Bound, most: Bound, places: number): string[] {
  const parts: string[] = [];
  for (let whole = 1; whole <= DIGITS; whole += 1) {
    const behind = Math.min(places, DIGITS - whole);
    const [low, high] = [scaled(least, behind, 1n), scaled(most, behind, -1n)];
    const first = whole === 1 ? 0n : 10n ** BigInt(whole - 1 + behind);
    const last = 10n ** BigInt(whole + behind) - 1n;
    const [from, to] = [low > first ? low : first, high < last ? high : last];
    const text = (number: bigint) => String(number).padStart(whole + behind, '0');
    if (from <= to) parts.push(`(${digitsBetween(text(from), text(to), whole)})`);
  }
  return parts;
}

/** The bound in units of the last place. `step` leads to the next number within. */
export function scaled({ value, inclusive }: Bound, places: number, step: bigint): bigint {
  const limited = Math.max(-(10 ** DIGITS), Math.min(value, 10 ** DIGITS));
  const text = limited.toFixed(places);
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
