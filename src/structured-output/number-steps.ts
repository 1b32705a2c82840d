/**
 * Numbers within bounds and multiples of a number, as EBNF: rules that follow the remainder from digit to digit. The
 * library's own rules let numbers beyond a bound through.
 */
import { type Bound, DIGITS, scaled, WHOLE_DIGITS } from './json-numbers.js';
import type { Rules } from './json-strings.js';

/** More remainders take too many rules. Those by 2 and 5 take few: only the last digits tell them. */
const MOST_REMAINDERS = 128;
const MOST_UNITS = 1_000_000;

export interface Step {
  /** The step in units of the last place. */
  units: bigint;
  /** Digits behind the point. */
  places: number;
}

/** Of the multiples of `step` that are whole, if `whole`. Undefined for a step with too many digits. */
export function stepOf(step: number, whole: boolean): Step | undefined {
  const [, digits = '', fraction = '', power = '0'] =
    /^(\d+)(?:\.(\d+))?(?:e([-+]\d+))?$/.exec(String(step)) ?? [];
  const places = fraction.length - Number(power);
  if (digits === '' || places > DIGITS) return undefined;
  const units = BigInt(digits + fraction) * 10n ** BigInt(Math.max(0, -places));
  if (units === 0n) return undefined;
  if (!whole) return { units, places: Math.max(0, places) };
  return { units: units / common(units, 10n ** BigInt(Math.max(0, places))), places: 0 };
}

function common(a: bigint, b: bigint): bigint {
  return b === 0n ? a : common(b, a % b);
}

/** Throws an Error where no number is within, or the step has too many remainders. */
export function multiplesWithin(least: Bound, most: Bound, { units, places }: Step, rules: Rules): string {
  if (units > MOST_UNITS || units / common(units, 10n ** 15n) > MOST_REMAINDERS)
    throw new Error('its remainders are too many for a grammar');
  const opposite = ({ value, inclusive }: Bound) => ({ value: -value, inclusive });
  const from = (bound: Bound, inclusive: boolean) => (bound.value < 0 ? { value: 0, inclusive } : bound);
  const digits = new StepDigits(units, places, rules);
  const negative = digits.magnitudes(from(opposite(most), false), opposite(least));
  const all = [...negative.map((body) => `"-" ${body}`), ...digits.magnitudes(from(least, true), most)];
  if (all.length === 0) {
    const what = units === 1n ? 'number' : 'multiple';
    throw new Error(`its bounds leave no ${what} of at most ${places === 0 ? WHOLE_DIGITS : DIGITS} digits`);
  }
  return all.join(' | ');
}

class StepDigits {
  readonly #units: bigint;
  readonly #places: number;
  readonly #rules: Rules;
  readonly #known = new Map<string, string | undefined>();

  constructor(units: bigint, places: number, rules: Rules) {
    this.#units = units;
    this.#places = places;
    this.#rules = rules;
  }

  /** Numbers without a sign. */
  magnitudes(least: Bound, most: Bound): string[] {
    const parts: string[] = [];
    const [units, places] = [this.#units, this.#places];
    const digits = places === 0 ? WHOLE_DIGITS : DIGITS;
    for (let whole = 1; whole <= (units === 1n ? digits : digits - places); whole += 1) {
      const behind = Math.min(places, digits - whole);
      const [low, high] = [scaled(least, behind, 1n, digits), scaled(most, behind, -1n, digits)];
      const first = whole === 1 ? 0n : 10n ** BigInt(whole - 1 + behind);
      const last = 10n ** BigInt(whole + behind) - 1n;
      const [from, to] = [low > first ? low : first, high < last ? high : last];
      const text = (number: bigint) => String(number).padStart(whole + behind, '0');
      const body = from <= to ? this.#digits(text(from), text(to), whole, 0) : undefined;
      if (body !== undefined) parts.push(body);
    }
    return parts;
  }

  /** A rule for digits from `low` to `high`. `whole` of them stand before the point; `given` is the remainder. */
  #digits(low: string, high: string, whole: number, given: number): string | undefined {
    const free = /^0*$/.test(low) && /^9*$/.test(high);
    let remainder = given;
    if (free) {
      const scale = 10n ** BigInt(low.length);
      const rest = (BigInt(given) * scale) % this.#units;
      if (rest > 0n && this.#units - rest >= scale) return undefined;
      // The digits that follow tell only so many remainders apart.
      remainder = Number(BigInt(given) % (this.#units / common(this.#units, scale)));
    }
    const key = `${free ? low.length : `${low}-${high}`}/${whole}/${remainder}`;
    if (!this.#known.has(key)) {
      const body = this.#alternatives(low, high, whole, remainder).join(' | ');
      this.#known.set(key, body === '' ? undefined : this.#rules.add(body));
    }
    return this.#known.get(key);
  }

  #alternatives(low: string, high: string, whole: number, remainder: number): string[] {
    const parts: string[] = [];
    // What is left out behind the point is zeros.
    const rest = (BigInt(remainder) * 10n ** BigInt(low.length)) % this.#units;
    if (whole <= 0 && /^0*$/.test(low) && rest === 0n) parts.push('""');
    if (low === '') return parts;
    const [first, last] = [Number(low[0]), Number(high[0])];
    let [begun, before] = [first, ''];
    for (let digit = first; digit <= last + 1; digit += 1) {
      const from = digit === first ? low.slice(1) : '0'.repeat(low.length - 1);
      const to = digit === last ? high.slice(1) : '9'.repeat(low.length - 1);
      const next = (remainder * 10 + digit) % Number(this.#units);
      const rule = digit > last ? undefined : this.#digits(from, to, whole - 1, next);
      if (digit > first && rule === before) continue;
      if (before !== '') parts.push(`${whole === 0 ? '"." ' : ''}[${begun}-${digit - 1}] ${before}`);
      [begun, before] = [digit, rule ?? ''];
    }
    return parts;
  }
}
