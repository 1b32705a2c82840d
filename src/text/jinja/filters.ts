/** Jinja's filters, with the `tojson` of transformers. */
import { itemOf, ownAttribute } from './access.js';
import { bound, textArgument, wholeArgument } from './arguments.js';
import type { Budget } from './budget.js';
import { itemPairs } from './methods.js';
import { numberFilters } from './number-filters.js';
import { arithmetic, isEqual, order, sorted } from './operators.js';
import { jsonText, textOf } from './print.js';
import { filterNames, tested } from './tests.js';
import { type Filter, indentation, textFilters } from './text-filters.js';
import { joined } from './text-methods.js';
import {
  charactersOf,
  Dict,
  hashed,
  isTrue,
  iterate,
  lengthOf,
  type Named,
  orUndefined,
  Series,
  sizeOf,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** Filters that take any arguments. */
type OpenFilter = (budget: Budget, value: Value, args: readonly Value[], named: Named) => Value;

const NONE: readonly string[] = [];

const FILTERS: Record<string, Filter> = {
  ...textFilters,
  ...numberFilters,
  attr: {
    parameters: ['name'],
    run: (budget, value, name) => {
      if (value instanceof Undefined) throw new TypeError(value.why);
      const attribute = ownAttribute(value, textArgument(name), budget);
      return orUndefined(
        attribute,
        () => `'${typeName(value)} object' has no attribute '${textArgument(name)}'`,
      );
    },
  },
  batch: { parameters: ['linecount', 'fill_with'], run: batches },
  default: {
    parameters: ['default_value', 'boolean'],
    run: (_, value, usual = '', boolean = false) =>
      value instanceof Undefined || (isTrue(boolean) && !isTrue(value)) ? usual : value,
  },
  dictsort: { parameters: ['case_sensitive', 'by', 'reverse'], run: sortedPairs },
  first: {
    parameters: NONE,
    run: (budget, value) => {
      const first = value instanceof Series ? value.next() : iterate(value, budget)[0];
      return orUndefined(first, () => 'No first item, sequence was empty.');
    },
  },
  groupby: { parameters: ['attribute', 'default', 'case_sensitive'], run: groups },
  items: { parameters: NONE, run: (_, value) => new Series('generator', pairsOf(value)) },
  join: {
    parameters: ['d', 'attribute'],
    run: (budget, value, separator = '', attribute = null) => {
      const get = getter(attribute, budget);
      const texts = iterate(value, budget).map((item) => textOf(get(item), budget));
      return joined(texts, textOf(separator, budget), budget);
    },
  },
  last: {
    parameters: NONE,
    run: (budget, value) => {
      if (value instanceof Series && value.once)
        throw new TypeError(`'${value.kind}' object is not reversible`);
      return orUndefined(iterate(value, budget).at(-1), () => 'No last item, sequence was empty.');
    },
  },
  length: {
    parameters: NONE,
    run: (_, value) => {
      const length = lengthOf(value);
      if (length === undefined) throw new TypeError(`object of type '${typeName(value)}' has no len()`);
      return BigInt(length);
    },
  },
  list: {
    parameters: NONE,
    run: (budget, value) => {
      const items = [...iterate(value, budget)];
      budget.make(items.length);
      return items;
    },
  },
  max: { parameters: ['case_sensitive', 'attribute'], run: (...given) => extreme(1, ...given) },
  min: { parameters: ['case_sensitive', 'attribute'], run: (...given) => extreme(-1, ...given) },
  reverse: { parameters: NONE, run: reversed },
  slice: { parameters: ['slices', 'fill_with'], run: slices },
  sort: {
    parameters: ['reverse', 'case_sensitive', 'attribute'],
    run: (budget, value, reverse = false, sensitive = false, attribute = null) => {
      const names = typeof attribute === 'string' ? attribute.split(',') : [attribute];
      const getters = names.map((name) => getter(name, budget, !isTrue(sensitive)));
      const keyOf = (item: Value) => getters.map((get) => get(item));
      return sorted(iterate(value, budget), keyOf, isTrue(reverse), budget);
    },
  },
  sum: {
    parameters: ['attribute', 'start'],
    run: (budget, value, attribute = null, start = 0n) => {
      const get = getter(attribute, budget);
      return iterate(value, budget).reduce<Value>(
        (sum, item) => arithmetic('+', sum, get(item), budget),
        start,
      );
    },
  },
  tojson: {
    parameters: ['ensure_ascii', 'indent', 'separators', 'sort_keys'],
    run: (budget, value, ascii = false, indent = null, separators = null, sort = false) =>
      jsonText(
        value,
        {
          ascii: isTrue(ascii),
          indent: indent === null ? undefined : indentation(indent),
          separators: separatorsOf(separators, indent !== null, budget),
          sorted: isTrue(sort),
        },
        budget,
      ),
  },
  unique: { parameters: ['case_sensitive', 'attribute'], run: unique },
};
FILTERS.d = FILTERS.default!;
FILTERS.count = FILTERS.length!;

const OPEN_FILTERS: Record<string, OpenFilter> = {
  map: (budget, value, args, named) => {
    if (!isTrue(value)) return new Series('generator', []);
    const apply = mapping(budget, args, named);
    return generator(iterate(value, budget).map(apply), budget);
  },
  select: (budget, value, args) => selected(budget, value, args, undefined, true),
  reject: (budget, value, args) => selected(budget, value, args, undefined, false),
  selectattr: (budget, value, [name, ...args]) => selected(budget, value, args, needed(name), true),
  rejectattr: (budget, value, [name, ...args]) => selected(budget, value, args, needed(name), false),
  format: (budget, value, args, named) =>
    arithmetic('%', textOf(value, budget), named.size > 0 ? new Dict(named) : tuple(...args), budget),
};

/** Filters of Jinja for web pages and for chance, which no prompt needs. */
const UNSUPPORTED = new Set(['pprint', 'random', 'striptags', 'urlize', 'wordwrap']);

for (const name of [...Object.keys(FILTERS), ...Object.keys(OPEN_FILTERS)]) filterNames.add(name);

export function filtered(
  name: string,
  value: Value,
  args: readonly Value[],
  named: Named,
  budget: Budget,
): Value {
  budget.step();
  if (Object.hasOwn(OPEN_FILTERS, name)) return OPEN_FILTERS[name]!(budget, value, args, named);
  if (UNSUPPORTED.has(name)) throw new TypeError(`The filter '${name}' is not supported.`);
  if (!Object.hasOwn(FILTERS, name)) throw new TypeError(`No filter named '${name}'.`);
  const { parameters, run } = FILTERS[name]!;
  if (run !== FILTERS.default!.run) budget.work(sizeOf(value));
  return run(budget, value, ...bound(name, parameters, args, named));
}

function generator(items: Value[], budget: Budget): Series {
  budget.make(items.length);
  return new Series('generator', items);
}

function mapping(budget: Budget, args: readonly Value[], named: Named): (item: Value) => Value {
  const [filter, ...rest] = args;
  if (filter !== undefined) return (item) => filtered(textArgument(filter), item, rest, named, budget);
  const attribute = named.get('attribute');
  if (attribute === undefined) throw new TypeError('map requires a filter argument');
  return getter(attribute, budget, false, named.get('default'));
}

function selected(
  budget: Budget,
  value: Value,
  [test, ...args]: readonly Value[],
  attribute: Value | undefined,
  wanted: boolean,
): Value {
  if (!isTrue(value)) return new Series('generator', []);
  const get = getter(attribute ?? null, budget);
  const holds = (item: Value) =>
    test === undefined ? isTrue(item) : tested(textArgument(test), item, args, budget);
  return generator(
    iterate(value, budget).filter((item) => holds(get(item)) === wanted),
    budget,
  );
}

function needed(attribute: Value | undefined): Value {
  if (attribute === undefined) throw new TypeError('Missing parameter for attribute name');
  return attribute;
}

/** Reads an attribute such as `function.name` or `0`. */
function getter(
  attribute: Value,
  budget: Budget,
  ignoresCase = false,
  usual?: Value,
): (item: Value) => Value {
  const parts =
    typeof attribute === 'string'
      ? attribute.split('.').map((part) => (/^\d+$/.test(part) ? BigInt(part) : part))
      : attribute === null
        ? []
        : [attribute];
  return (item) => {
    let found = item;
    for (const part of parts) {
      budget.step();
      found = itemOf(found, part, budget);
      if (found instanceof Undefined && usual != null) found = usual;
    }
    return ignoresCase && typeof found === 'string' ? found.toLowerCase() : found;
  };
}

function batches(budget: Budget, value: Value, count?: Value, fill: Value = null): Value {
  const size = wholeArgument(count);
  const lists: Value[][] = [];
  for (const item of iterate(value, budget)) {
    const last = lists.at(-1);
    if (last === undefined || last.length === size) lists.push([item]);
    else last.push(item);
  }
  const missing = lists.length === 0 || fill === null ? 0 : Math.max(0, size - lists.at(-1)!.length);
  budget.make(missing);
  for (let at = 0; at < missing; at += 1) lists.at(-1)!.push(fill);
  return generator(lists, budget);
}

function slices(budget: Budget, value: Value, count?: Value, fill: Value = null): Value {
  const items = iterate(value, budget);
  const number = wholeArgument(count);
  if (number === 0) throw new RangeError('division by zero');
  budget.make(number);
  const [each, longer] = [Math.floor(items.length / number), items.length % number];
  return generator(
    Array.from({ length: Math.max(0, number) }, (_, at) => {
      const from = at * each + Math.min(at, longer);
      const part = items.slice(from, from + each + (at < longer ? 1 : 0));
      return fill !== null && at >= longer ? [...part, fill] : part;
    }),
    budget,
  );
}

function pairsOf(value: Value): Value[] {
  if (value instanceof Undefined) return [];
  if (!(value instanceof Dict)) throw new TypeError('Can only get item pairs from a mapping.');
  return itemPairs(value);
}

function sortedPairs(
  budget: Budget,
  value: Value,
  sensitive: Value = false,
  by: Value = 'key',
  reverse: Value = false,
): Value {
  if (by !== 'key' && by !== 'value') throw new TypeError('You can only sort by either "key" or "value"');
  if (value instanceof Undefined) throw new TypeError(value.why);
  const keyOf = getter(by === 'key' ? 0n : 1n, budget, !isTrue(sensitive));
  return sorted(pairsOf(value), keyOf, isTrue(reverse), budget);
}

function groups(
  budget: Budget,
  value: Value,
  attribute: Value = null,
  usual: Value = null,
  sensitive: Value = false,
): Value {
  const keyOf = getter(attribute, budget, !isTrue(sensitive), usual);
  const given = getter(attribute, budget, false, usual);
  const found: { key: Value; name: Value; items: Value[] }[] = [];
  for (const item of sorted(iterate(value, budget), keyOf, false, budget)) {
    const last = found.at(-1);
    const key = keyOf(item);
    if (last !== undefined && isEqual(last.key, key, budget)) last.items.push(item);
    else found.push({ key, name: given(item), items: [item] });
  }
  return found.map(({ name, items }) => tuple(name, items));
}

function extreme(
  sign: 1 | -1,
  budget: Budget,
  value: Value,
  sensitive: Value = false,
  attribute: Value = null,
): Value {
  const keyOf = getter(attribute, budget, !isTrue(sensitive));
  const [first, ...rest] = iterate(value, budget);
  if (first === undefined) return new Undefined('No aggregated item, sequence was empty.');
  return rest.reduce(
    (best, item) => (order(keyOf(item), keyOf(best), '<', budget) * sign > 0 ? item : best),
    first,
  );
}

function reversed(budget: Budget, value: Value): Value {
  if (typeof value === 'string') return charactersOf(value).reverse().join('');
  const items = [...iterate(value, budget)].reverse();
  const list = value instanceof Undefined || (value instanceof Series && value.once);
  return list ? items : new Series('iterator', items);
}

function unique(budget: Budget, value: Value, sensitive: Value = false, attribute: Value = null): Value {
  const keyOf = getter(attribute, budget, !isTrue(sensitive));
  const seen = new Set<unknown>();
  const items = iterate(value, budget).filter((item) => {
    const key = hashed(keyOf(item));
    return !seen.has(key) && seen.add(key);
  });
  return generator(items, budget);
}

function separatorsOf(separators: Value, indented: boolean, budget: Budget): [string, string] {
  if (separators === null) return [indented ? ',' : ', ', ': '];
  const [item, key] = iterate(separators, budget);
  return [textArgument(item), textArgument(key)];
}
