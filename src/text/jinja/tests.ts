/** Jinja's tests, such as `is defined`. */
import type { Budget } from './budget.js';
import { type Comparison, compared, numberOf } from './operators.js';
import { textOf } from './print.js';
import { isCased } from './text-methods.js';
import {
  Attributes,
  Callable,
  Dict,
  hashed,
  itemsOf,
  lengthOf,
  Series,
  sizeOf,
  Undefined,
  type Value,
} from './values.js';

type Test = (value: Value, args: readonly Value[], budget: Budget) => boolean;

const COMPARISONS: Record<string, Comparison> = {
  ...{ eq: '==', equalto: '==', '==': '==', ne: '!=', '!=': '!=' },
  ...{ gt: '>', greaterthan: '>', '>': '>', ge: '>=', '>=': '>=' },
  ...{ lt: '<', lessthan: '<', '<': '<', le: '<=', '<=': '<=', in: 'in' },
};

const TESTS: Record<string, Test> = {
  odd: (value) => remainder(value, 2n) === 1n,
  even: (value) => remainder(value, 2n) === 0n,
  divisibleby: (value, [by]) => remainder(value, by) === 0n,
  defined: (value) => !(value instanceof Undefined),
  undefined: (value) => value instanceof Undefined,
  filter: (value) => filterNames.has(hashed(value) as string),
  test: (value) => isTest(hashed(value) as string),
  none: (value) => value === null,
  boolean: (value) => typeof value === 'boolean',
  false: (value) => value === false,
  true: (value) => value === true,
  integer: (value) => typeof value === 'bigint',
  float: (value) => typeof value === 'number',
  number: (value) => numberOf(value) !== undefined,
  string: (value) => typeof value === 'string',
  mapping: (value) => value instanceof Dict,
  sequence: (value) =>
    typeof value === 'string' ||
    (lengthOf(value) !== undefined && !(value instanceof Series && !value.indexed)),
  iterable: (value) => typeof value === 'string' || value instanceof Series || itemsOf(value) !== undefined,
  callable: (value) =>
    value instanceof Callable ||
    value instanceof Undefined ||
    (value instanceof Attributes && value.call !== undefined),
  lower: (value, _args, budget) => isCased(read(value, budget), 'lower'),
  upper: (value, _args, budget) => isCased(read(value, budget), 'upper'),
  sameas: (value, [other]) => value === other,
  escaped: () => false,
};

function read(value: Value, budget: Budget): string {
  budget.work(sizeOf(value));
  return textOf(value, budget);
}

/** Names of filters, which the test of that name looks for. */
export const filterNames = new Set<string>();

function isTest(name: string): boolean {
  return Object.hasOwn(TESTS, name) || Object.hasOwn(COMPARISONS, name);
}

export function tested(name: string, value: Value, args: readonly Value[], budget: Budget): boolean {
  budget.step();
  if (Object.hasOwn(TESTS, name)) return TESTS[name]!(value, args, budget);
  if (!Object.hasOwn(COMPARISONS, name)) throw new TypeError(`No test named '${name}'.`);
  const [other] = args;
  if (other === undefined) throw new TypeError(`the test '${name}' expects an argument`);
  return compared(COMPARISONS[name]!, value, other, budget);
}

function remainder(value: Value, by: Value | undefined): bigint | undefined {
  if (value instanceof Undefined) throw new TypeError(value.why);
  const [number, divisor] = [numberOf(value), by === undefined ? undefined : numberOf(by)];
  if (number === undefined || divisor === undefined) throw new TypeError('the test expects whole numbers');
  if (Number(divisor) === 0) throw new RangeError('division by zero');
  if (typeof number === 'bigint' && typeof divisor === 'bigint') {
    const rest = number % divisor;
    return rest < 0n !== divisor < 0n && rest !== 0n ? rest + divisor : rest;
  }
  const rest = Number(number) % Number(divisor);
  return Number.isInteger(rest) ? BigInt(Math.abs(rest)) : undefined;
}
