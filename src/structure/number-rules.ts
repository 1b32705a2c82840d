/** Numbers of JSON within bounds, as EBNF. Their digits are few enough for every reader to get the same number. */
import { choice, repeated } from './ebnf.js';

const DIGITS = 15;
const FRACTION = `"." ${repeated('[0-9]', 1, DIGITS)}`;
/** A fraction that is not zero. */
const ABOVE_ZERO = `"." ${repeated('[0-9]', 0, DIGITS - 1)} [1-9]`;
const WHOLE = `("0" | [1-9] ${repeated('[0-9]', 0, DIGITS - 1)})`;

export const INTEGER = `("0" | "-"? [1-9] ${repeated('[0-9]', 0, DIGITS - 1)})`;
export const NUMBER = `("-"? ${WHOLE} (${FRACTION})? ([eE] [+-]? ${repeated('[0-9]', 1, 2)})?)`;

/** Bounds of magnitudes: whole numbers from 0, `to` of null for none. */
interface Bounds {
  from: number;
  to: number | null;
  /** Whether the bounds themselves are out. */
  aboveFrom: boolean;
  belowTo: boolean;
}

export interface NumberBounds {
  minimum?: number | undefined;
  maximum?: number | undefined;
  exclusiveMinimum?: number | undefined;
  exclusiveMaximum?: number | undefined;
}

/** The whole numbers that the bounds enclose; null is no bound. */
export function wholeBounds({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: NumberBounds): {
  least: number | null;
  most: number | null;
} {
  const least = [minimum, exclusiveMinimum === undefined ? undefined : Math.floor(exclusiveMinimum) + 1];
  const most = [maximum, exclusiveMaximum === undefined ? undefined : Math.ceil(exclusiveMaximum) - 1];
  const given = (bounds: (number | undefined)[]) => bounds.filter((bound) => bound !== undefined);
  const [low, high] = [given(least), given(most)];
  return {
    least: low.length === 0 ? null : Math.ceil(Math.max(...low)),
    most: high.length === 0 ? null : Math.floor(Math.min(...high)),
  };
}

/** Whole numbers from `least` to `most`, where null is no bound; undefined if there is none. */
export function integerRange(least: number | null, most: number | null): string | undefined {
  if (least !== null && most !== null && least > most) return undefined;
  const parts: string[] = [];
  if (least === null || least < 0) {
    const from = most === null || most >= 0 ? 1 : -most;
    parts.push(`"-" ${magnitudes(from, least === null ? null : -least)}`);
  }
  if (most === null || most >= 0) parts.push(magnitudes(Math.max(0, least ?? 0), most));
  return choice(parts);
}

/** Numbers within whole bounds, without exponents; undefined if there is none. */
export function numberRange(given: NumberBounds): string | undefined {
  const parts = signedBounds(given).map(([sign, bounds]) => within(sign, bounds));
  return parts.length === 0 ? undefined : choice(parts);
}

/** Whether bounds leave a number. They must be whole. */
export function hasNumbers(given: NumberBounds): boolean {
  return signedBounds(given).length > 0;
}

/** Whether bounds leave a whole number. */
export function hasIntegers(given: NumberBounds): boolean {
  const { least, most } = wholeBounds(given);
  return least === null || most === null || least <= most;
}

/** The magnitudes that the bounds leave, behind each sign. */
function signedBounds(given: NumberBounds): [sign: string, Bounds][] {
  const least = larger(given.minimum, given.exclusiveMinimum);
  const most = smaller(given.maximum, given.exclusiveMaximum);
  const found: [string, Bounds][] = [];
  if (least.value === null || least.value < 0) {
    const negative = most.value !== null && most.value < 0;
    found.push([
      '"-" ',
      {
        from: negative ? -most.value! : 0,
        aboveFrom: negative ? most.exclusive : true,
        to: least.value === null ? null : -least.value,
        belowTo: least.exclusive,
      },
    ]);
  }
  if (most.value === null || most.value >= 0) {
    const positive = least.value !== null && least.value >= 0;
    found.push([
      '',
      {
        from: positive ? least.value! : 0,
        aboveFrom: positive && least.exclusive,
        to: most.value,
        belowTo: most.exclusive,
      },
    ]);
  }
  return found.filter(([, bounds]) => !isEmpty(bounds));
}

function isEmpty({ from, to, aboveFrom, belowTo }: Bounds): boolean {
  return to !== null && (from > to || (from === to && (aboveFrom || belowTo)));
}

/** The bounds must leave a number. */
function within(sign: string, { from, to, aboveFrom, belowTo }: Bounds): string {
  const parts: string[] = [];
  if (to !== null && !belowTo) parts.push(`${sign}"${to}"`);
  if (from !== to) {
    if (aboveFrom) parts.push(`${sign}"${from}" ${ABOVE_ZERO}`);
    const first = aboveFrom ? from + 1 : from;
    // A zero has no sign.
    if (to === null || first < to)
      parts.push(`${sign}${magnitudes(first, to === null ? null : to - 1)} (${FRACTION})?`);
  }
  return choice(parts);
}

/** The digits of the whole numbers from `from` to `to`; of null, up to so many digits as are read exactly. */
function magnitudes(from: number, to: number | null): string {
  if (to === null) {
    const { length } = String(from);
    const longer = length < DIGITS ? [`[1-9] ${repeated('[0-9]', length, DIGITS - 1)}`] : [];
    return choice([magnitudes(from, Math.min(10 ** length - 1, Number.MAX_SAFE_INTEGER)), ...longer]);
  }
  const parts: string[] = [];
  for (let low = from; low <= to; ) {
    const { length } = String(low);
    const high = Math.min(to, 10 ** length - 1);
    parts.push(sameLength(String(low), String(high)));
    low = high + 1;
  }
  return choice(parts);
}

/** Numbers of as many digits as both bounds have. */
function sameLength(low: string, high: string): string {
  const [a, b] = [Number(low[0]), Number(high[0])];
  const rest = low.length - 1;
  if (rest === 0) return digits(a, b);
  if (a === b) return `"${a}" ${sameLength(low.slice(1), high.slice(1))}`;
  const [lowRest, highRest] = [low.slice(1), high.slice(1)];
  const wholeLow = /^0*$/.test(lowRest);
  const wholeHigh = /^9*$/.test(highRest);
  const parts: string[] = [];
  if (!wholeLow) parts.push(`"${a}" ${sameLength(lowRest, '9'.repeat(rest))}`);
  const [first, last] = [wholeLow ? a : a + 1, wholeHigh ? b : b - 1];
  if (first <= last) parts.push(`${digits(first, last)} ${repeated('[0-9]', rest, rest)}`);
  if (!wholeHigh) parts.push(`"${b}" ${sameLength('0'.repeat(rest), highRest)}`);
  return choice(parts);
}

function digits(from: number, to: number): string {
  return from === to ? `"${from}"` : `[${from}-${to}]`;
}

interface Bound {
  value: number | null;
  exclusive: boolean;
}

function larger(inclusive: number | undefined, exclusive: number | undefined): Bound {
  return stricter(inclusive, exclusive, (a, b) => b >= a);
}

function smaller(inclusive: number | undefined, exclusive: number | undefined): Bound {
  return stricter(inclusive, exclusive, (a, b) => b <= a);
}

function stricter(
  inclusive: number | undefined,
  exclusive: number | undefined,
  wins: (inclusive: number, exclusive: number) => boolean,
): Bound {
  if (exclusive !== undefined && (inclusive === undefined || wins(inclusive, exclusive)))
    return { value: exclusive, exclusive: true };
  return { value: inclusive ?? null, exclusive: false };
}
