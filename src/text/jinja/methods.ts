/** Methods of texts, lists and dicts. Those that change a value are missing, as in Jinja's immutable sandbox. */
import { bound, type Method, wholeArgument } from './arguments.js';
import type { Budget } from './budget.js';
import { isEqual } from './operators.js';
import { textMethods } from './text-methods.js';
import { Callable, Dict, isTuple, Series, sizeOf, tuple, typeName, Undefined, type Value } from './values.js';

const LIST_METHODS: Record<string, Method<readonly Value[]>> = {
  index: (items, args, named, budget) => {
    const [wanted, start, stop] = bound('index', ['value', 'start', 'stop'], args, named);
    const from = wholeArgument(start, 0);
    const at = items
      .slice(0, stop === undefined ? undefined : wholeArgument(stop))
      .findIndex((item, place) => place >= from && isEqual(item, wanted!, budget));
    if (at < 0) throw new RangeError('the value is not in list');
    return BigInt(at);
  },
  count: (items, args, named, budget) => {
    const [wanted] = bound('count', ['value'], args, named);
    if (wanted === undefined) throw new TypeError('count() takes exactly one argument (0 given)');
    return BigInt(items.filter((item) => isEqual(item, wanted, budget)).length);
  },
  copy: (items, _args, _named, budget) => {
    budget.make(items.length);
    return [...items];
  },
};

const DICT_METHODS: Record<string, Method<Dict>> = {
  get: (dict, [key = null, usual = null]) => (dict.has(key) ? dict.get(key)! : usual),
  keys: (dict) => new Series('dict_keys', dict.keys()),
  values: (dict) => new Series('dict_values', dict.values()),
  items: (dict) => new Series('dict_items', itemPairs(dict)),
  copy: (dict) => new Dict(dict.entries()),
};

/** Methods that would change the value. */
const UNSAFE = new Set([
  ...['append', 'clear', 'extend', 'insert', 'pop', 'remove', 'reverse', 'sort'],
  ...['popitem', 'setdefault', 'update'],
]);

export function itemPairs(dict: Dict): Value[] {
  return dict.entries().map(([key, value]) => tuple(key, value));
}

/** Undefined where the value has no such method. */
export function methodOf(value: Value, name: string, budget: Budget): Value | undefined {
  if (typeof value === 'string') return method(textMethods, value, name, budget);
  if (isTuple(value)) return name === 'copy' ? undefined : method(LIST_METHODS, value.items, name, budget);
  const list = Array.isArray(value);
  if (!list && !(value instanceof Dict)) return undefined;
  const found = list ? method(LIST_METHODS, value, name, budget) : method(DICT_METHODS, value, name, budget);
  if (found !== undefined || !UNSAFE.has(name)) return found;
  if (list ? /popitem|setdefault|update/.test(name) : !/clear|pop|setdefault|update/.test(name))
    return undefined;
  return new Undefined(`access to attribute '${name}' of '${typeName(value)}' object is unsafe.`);
}

function method<T>(
  methods: Record<string, Method<T>>,
  value: T,
  name: string,
  budget: Budget,
): Callable | undefined {
  if (!Object.hasOwn(methods, name)) return undefined;
  return new Callable(name, (args, named) => {
    budget.work(sizeOf(value as Value));
    return methods[name]!(value, args, named, budget);
  });
}
