/** Functions that every template has. */
import { bound, textArgument, wholeArgument } from './arguments.js';
import type { Budget } from './budget.js';
import { strftime } from './strftime.js';
import {
  Attributes,
  Callable,
  Dict,
  iterate,
  type Named,
  orUndefined,
  Series,
  sizeOf,
  tuple,
  type Value,
} from './values.js';

/** Reports a conversation that the template itself refuses, such as one with two user messages in a row. */
export class Refused extends Error {}

/** Most numbers of a `range`. */
const MOST_RANGE = 1 << 16;

type Function = (budget: Budget, args: Value[], named: Named) => Value;

const FUNCTIONS: Record<string, Function> = {
  range: (budget, args) => range(budget, args),
  namespace: (budget, args, named) => {
    const values = pairs(budget, args, named).map(
      ([key, value]) => [textArgument(key), value] as [string, Value],
    );
    return new Attributes('Namespace', values);
  },
  dict: (budget, args, named) => new Dict(pairs(budget, args, named)),
  joiner: (_, args, named) => {
    const [separator = ', '] = bound('joiner', ['sep'], args, named);
    let used = false;
    return new Callable('joiner', () => {
      const value = used ? separator : '';
      used = true;
      return value;
    });
  },
  cycler: (_, items) => cycler(items),
  strftime_now: (budget, args, named) => {
    const text = strftime(textArgument(bound('strftime_now', ['format'], args, named)[0]), new Date());
    budget.make(text.length);
    return text;
  },
  raise_exception: (_, args, named) => {
    const [message = ''] = bound('raise_exception', ['message'], args, named);
    throw new Refused(String(message));
  },
};

export const FUNCTION_NAMES: readonly string[] = Object.keys(FUNCTIONS);

export function globals(budget: Budget): [string, Value][] {
  return FUNCTION_NAMES.map((name) => [
    name,
    new Callable(name, (args, named) => FUNCTIONS[name]!(budget, args, named)),
  ]);
}

/** The arguments of Python's `dict`. */
function pairs(budget: Budget, args: readonly Value[], named: Named): [Value, Value][] {
  const [given] = args;
  if (given !== undefined) budget.make(sizeOf(given));
  const entries =
    given === undefined
      ? []
      : given instanceof Dict
        ? given.entries()
        : iterate(given, budget).map((pair) => iterate(pair, budget) as unknown as [Value, Value]);
  return [...entries, ...named];
}

function range(budget: Budget, args: readonly Value[]): Series {
  if (args.length === 0 || args.length > 3) throw new TypeError('range expects 1 to 3 arguments');
  const numbers = args.map((each) => wholeArgument(each));
  const [from, to, by] =
    numbers.length === 1 ? [0, numbers[0]!, 1] : [numbers[0]!, numbers[1]!, numbers[2] ?? 1];
  if (by === 0) throw new RangeError('range() arg 3 must not be zero');
  const count = Math.max(0, Math.ceil((to - from) / by));
  if (count > MOST_RANGE) throw new Error(`a range has more than ${MOST_RANGE} numbers`);
  budget.make(count);
  return rangeOf(from, to, by, count);
}

function rangeOf(from: number, to: number, by: number, count: number): Series {
  const numbers = Array.from({ length: count }, (_, at) => BigInt(from + at * by));
  return new Series('range', numbers, `range(${from}, ${to}${by === 1 ? '' : `, ${by}`})`);
}

function cycler(items: readonly Value[]): Attributes {
  if (items.length === 0) throw new TypeError('at least one item has to be provided');
  let at = 0;
  const cycle: Attributes = new Attributes('Cycler', [
    ['current', items[0]!],
    ['next', new Callable('next', () => move(at + 1))],
    ['reset', new Callable('reset', () => move(0) && null)],
  ]);
  const move = (to: number): Value => {
    const before = items[at]!;
    at = to % items.length;
    cycle.values.set('current', items[at]!);
    return before;
  };
  return cycle;
}

/** A loop's `loop`, of the item at `at`. */
export function loopAttributes(
  items: readonly Value[],
  at: number,
  depth: number,
  changed: Callable,
  again: Callable['call'] | undefined,
): Attributes {
  const { length } = items;
  const whole = (number: number) => BigInt(number);
  const values: [string, Value][] = [
    ['index', whole(at + 1)],
    ['index0', whole(at)],
    ['revindex', whole(length - at)],
    ['revindex0', whole(length - at - 1)],
    ['first', at === 0],
    ['last', at === length - 1],
    ['length', whole(length)],
    ['depth', whole(depth + 1)],
    ['depth0', whole(depth)],
    ['previtem', orUndefined(items[at - 1], () => 'there is no previous item')],
    ['nextitem', orUndefined(items[at + 1], () => 'there is no next item')],
    ['changed', changed],
    [
      'cycle',
      new Callable('cycle', (args) => {
        if (args.length === 0) throw new TypeError('no items for cycling given');
        return args[at % args.length]!;
      }),
    ],
  ];
  return new Attributes('LoopContext', values, again);
}

export function changes(equal: (a: Value, b: Value) => boolean): Callable {
  let last: Value | undefined;
  return new Callable('changed', (args) => {
    const now = tuple(...args);
    const same = last !== undefined && equal(last, now);
    last = now;
    return !same;
  });
}
