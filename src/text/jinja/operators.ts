/** Python's operators. */
import type { Budget } from './budget.js';
import { formatted } from './format.js';
import {
  charactersOf,
  Dict,
  isTuple,
  itemsOf,
  iterate,
  Series,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

export type Arithmetic = '+' | '-' | '*' | '/' | '//' | '%' | '**';
export type Comparison = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in';

/** Larger numbers are not computed: every step may double their digits. */
const MOST_BITS = 256;
const LARGEST = 1n << BigInt(MOST_BITS);

export function arithmetic(operator: Arithmetic, left: Value, right: Value, budget: Budget): Value {
  if (operator === '%' && typeof left === 'string') return formatted(left, right, budget);
  for (const value of [left, right]) if (value instanceof Undefined) throw new TypeError(value.why);
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a !== undefined && b !== undefined) return computed(operator, a, b);
  if (operator === '+') {
    const joined = concatenated(left, right, budget);
    if (joined !== undefined) return joined;
  }
  if (operator === '*') {
    const [times, value] = typeof a === 'bigint' ? [a, right] : [b, left];
    const repeated = typeof times === 'bigint' ? repetition(value, times, budget) : undefined;
    if (repeated !== undefined) return repeated;
  }
  throw new TypeError(
    `unsupported operand type(s) for ${operator}: '${typeName(left)}' and '${typeName(right)}'`,
  );
}

/** Truth values are numbers. */
export function numberOf(value: Value): bigint | number | undefined {
  if (typeof value === 'boolean') return BigInt(value);
  return typeof value === 'bigint' || typeof value === 'number' ? value : undefined;
}

function concatenated(left: Value, right: Value, budget: Budget): Value | undefined {
  if (typeof left === 'string' && typeof right === 'string') {
    budget.make(left.length + right.length);
    return left + right;
  }
  const joined = (a: readonly Value[], b: readonly Value[]) => {
    budget.make(a.length + b.length);
    return [...a, ...b];
  };
  if (Array.isArray(left) && Array.isArray(right)) return joined(left, right);
  if (isTuple(left) && isTuple(right)) return tuple(...joined(left.items, right.items));
  return undefined;
}

function repetition(value: Value, times: bigint, budget: Budget): Value | undefined {
  const count = times > 0n ? Number(times) : 0;
  if (typeof value === 'string') {
    budget.make(value.length * count);
    return value.repeat(count);
  }
  if (!Array.isArray(value) && !isTuple(value)) return undefined;
  const items = Array.isArray(value) ? value : value.items;
  budget.make(items.length * count);
  const repeated = Array.from({ length: items.length === 0 ? 0 : count }, () => items).flat();
  return Array.isArray(value) ? repeated : tuple(...repeated);
}

function computed(operator: Arithmetic, a: bigint | number, b: bigint | number): Value {
  if (typeof a === 'bigint' && typeof b === 'bigint') {
    const whole = wholeResult(operator, a, b);
    if (whole === undefined) return floatResult(operator, Number(a), Number(b));
    if (whole > LARGEST || whole < -LARGEST)
      throw new Error(`it computes a number of more than ${MOST_BITS} bits`);
    return whole;
  }
  return floatResult(operator, Number(a), Number(b));
}

/** Undefined where the result is a float. */
function wholeResult(operator: Arithmetic, a: bigint, b: bigint): bigint | undefined {
  if (operator === '+') return a + b;
  if (operator === '-') return a - b;
  if (operator === '*') return a * b;
  if (operator === '**') {
    if (b < 0n) return undefined;
    const bits = BigInt(a.toString(2).length);
    return (bits - 1n) * b > MOST_BITS ? LARGEST + 1n : a ** b;
  }
  if (operator === '/') return undefined;
  if (b === 0n) throw new RangeError('division by zero');
  const rest = a % b;
  const other = rest !== 0n && rest < 0n !== b < 0n;
  if (operator === '%') return other ? rest + b : rest;
  return other ? a / b - 1n : a / b;
}

function floatResult(operator: Arithmetic, a: number, b: number): number {
  if (b === 0 && ['/', '//', '%'].includes(operator)) throw new RangeError('division by zero');
  switch (operator) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return a / b;
    case '//':
      return Math.floor(a / b);
    case '**':
      return power(a, b);
    case '%': {
      const rest = a % b;
      // A rest of zero has the sign of the divisor.
      if (rest === 0) return b < 0 ? -0 : 0;
      return rest < 0 !== b < 0 ? rest + b : rest;
    }
  }
}

function power(a: number, b: number): number {
  const result = a ** b;
  if (Number.isFinite(a) && Number.isFinite(b) && !Number.isFinite(result))
    throw new RangeError(`${a} ** ${b} is no number that a float can be`);
  return result;
}

export function compared(operator: Comparison, left: Value, right: Value, budget: Budget): boolean {
  switch (operator) {
    case '==':
      return isEqual(left, right, budget);
    case '!=':
      return !isEqual(left, right, budget);
    case 'in':
      return isIn(left, right, budget);
    case 'not in':
      return !isIn(left, right, budget);
    case '<':
      return order(left, right, operator, budget) < 0;
    case '<=':
      return order(left, right, operator, budget) <= 0;
    case '>':
      return order(left, right, operator, budget) > 0;
    case '>=':
      return order(left, right, operator, budget) >= 0;
  }
}

export function isEqual(a: Value, b: Value, budget: Budget): boolean {
  budget.work(typeof a === 'string' ? a.length : 0);
  const [first, second] = [numberOf(a), numberOf(b)];
  // biome-ignore lint/suspicious/noDoubleEquals: compares an int with a float by value
  if (first !== undefined && second !== undefined) return first == second;
  if (a instanceof Undefined) return b instanceof Undefined;
  if (a instanceof Dict && b instanceof Dict)
    return (
      a.size === b.size &&
      a.entries().every(([key, value]) => b.has(key) && isEqual(value, b.get(key)!, budget))
    );
  const lists = Array.isArray(a) && Array.isArray(b);
  const series = a instanceof Series && b instanceof Series && !a.once && a.kind === b.kind;
  if (!lists && !series) return a === b;
  const [left, right] = [itemsOf(a)!, itemsOf(b)!];
  return left.length === right.length && left.every((item, at) => isEqual(item, right[at]!, budget));
}

function isIn(item: Value, container: Value, budget: Budget): boolean {
  if (typeof container === 'string') {
    if (typeof item !== 'string')
      throw new TypeError(`'in <string>' requires string as left operand, not ${typeName(item)}`);
    budget.work(container.length);
    return container.includes(item);
  }
  if (container instanceof Dict) return container.has(item);
  return iterate(container, budget).some((each) => isEqual(each, item, budget));
}

/** Negative where `a` is before `b`. Throws where Python has no order. */
export function order(a: Value, b: Value, operator: Comparison, budget: Budget): number {
  for (const value of [a, b]) if (value instanceof Undefined) throw new TypeError(value.why);
  const [first, second] = [numberOf(a), numberOf(b)];
  if (first !== undefined && second !== undefined)
    return first < second ? -1 : first > second ? 1 : first >= second ? 0 : Number.NaN;
  if (typeof a === 'string' && typeof b === 'string') return textOrder(a, b, budget);
  if ((Array.isArray(a) && Array.isArray(b)) || (isTuple(a) && isTuple(b))) {
    const [left, right] = [itemsOf(a)!, itemsOf(b)!];
    for (let at = 0; at < Math.min(left.length, right.length); at += 1)
      if (!isEqual(left[at]!, right[at]!, budget)) return order(left[at]!, right[at]!, operator, budget);
    return left.length - right.length;
  }
  throw new TypeError(
    `'${operator}' not supported between instances of '${typeName(a)}' and '${typeName(b)}'`,
  );
}

/** By code points: JavaScript has letters such as emoji before U+E000. */
function textOrder(a: string, b: string, budget: Budget): number {
  budget.work(Math.min(a.length, b.length));
  if (a === b) return 0;
  if (!/[\ud800-\udfff]/.test(a + b)) return a < b ? -1 : 1;
  const [left, right] = [charactersOf(a), charactersOf(b)];
  const at = left.findIndex((character, place) => character !== right[place]);
  if (at < 0) return -1;
  return (left[at]?.codePointAt(0) ?? -1) - (right[at]?.codePointAt(0) ?? -1);
}

/** Python's `sorted`. */
export function sorted<T>(
  items: readonly T[],
  keyOf: (item: T) => Value,
  reverse: boolean,
  budget: Budget,
): T[] {
  budget.make(items.length);
  const keyed = items.map((item) => ({ item, key: keyOf(item) }));
  // Equal items keep their order, also where the order is reversed.
  keyed.sort((a, b) => (reverse ? order(b.key, a.key, '<', budget) : order(a.key, b.key, '<', budget)));
  return keyed.map(({ item }) => item);
}

export function signed(sign: '+' | '-', value: Value): Value {
  if (value instanceof Undefined) throw new TypeError(value.why);
  const number = numberOf(value);
  if (number === undefined) throw new TypeError(`bad operand type for unary ${sign}: '${typeName(value)}'`);
  return sign === '-' ? -number : number;
}
