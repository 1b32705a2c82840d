/** Attributes, items and slices of values, as Jinja's sandbox looks them up. */
import type { Budget } from './budget.js';
import { methodOf } from './methods.js';
import { written } from './print.js';
import {
  Attributes,
  charactersOf,
  Dict,
  hashed,
  isTuple,
  itemsOf,
  orUndefined,
  Series,
  sizeOf,
  textLength,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** `value.name`: an attribute, else the item of that name. */
export function attributeOf(value: Value, name: string, budget: Budget): Value {
  if (value instanceof Undefined) throw new TypeError(value.why);
  const attribute = ownAttribute(value, name, budget);
  const found = attribute === undefined && value instanceof Dict ? value.get(name) : attribute;
  return orUndefined(found, () => `'${typeName(value)} object' has no attribute '${name}'`);
}

/** Undefined where it has no such attribute. */
export function ownAttribute(value: Value, name: string, budget: Budget): Value | undefined {
  return value instanceof Attributes ? value.values.get(name) : methodOf(value, name, budget);
}

/** `value[key]`: an item, else the attribute of that name. */
export function itemOf(value: Value, key: Value, budget: Budget): Value {
  if (value instanceof Undefined) throw new TypeError(value.why);
  if (typeof value === 'string') budget.work(value.length);
  const item = ownItem(value, key);
  const found = item === undefined && typeof key === 'string' ? ownAttribute(value, key, budget) : item;
  return orUndefined(found, () => {
    const what = typeof key === 'string' ? `attribute '${key}'` : `element ${written(key, budget)}`;
    return `'${typeName(value)} object' has no ${what}`;
  });
}

function ownItem(value: Value, key: Value): Value | undefined {
  if (value instanceof Dict) return isHashable(key) ? value.get(key) : undefined;
  if (typeof key !== 'bigint' && typeof key !== 'boolean') return undefined;
  const at = Number(key);
  if (typeof value === 'string') {
    const length = textLength(value);
    return length === value.length ? value.at(at) : charactersOf(value).at(at);
  }
  return Array.isArray(value) || (value instanceof Series && value.indexed)
    ? itemsOf(value)!.at(at)
    : undefined;
}

function isHashable(key: Value): boolean {
  try {
    hashed(key);
    return true;
  } catch {
    return false;
  }
}

/** `value[start:stop:step]`. */
export function sliceOf(value: Value, parts: readonly Value[], budget: Budget): Value {
  if (value instanceof Undefined) throw new TypeError(value.why);
  const sliced =
    Array.isArray(value) || typeof value === 'string' || (value instanceof Series && value.indexed);
  if (!sliced) throw new TypeError(`'${typeName(value)}' object has no slices`);
  if (!parts.every((part) => part === null || typeof part === 'bigint' || typeof part === 'boolean'))
    throw new TypeError('slice indices must be integers or None');
  budget.work(sizeOf(value));
  const items = itemsOf(value)!;
  const picked = pickedItems(items, parts as readonly (bigint | boolean | null)[]);
  budget.make(picked.length);
  if (typeof value === 'string') return picked.join('');
  if (Array.isArray(value)) return picked;
  return isTuple(value) ? tuple(...picked) : new Series('range', picked, rangeText(picked as bigint[]));
}

/** A slice of a range is one, too. Its end is the number behind its last. */
function rangeText(numbers: readonly bigint[]): string {
  const [first = 0n, second = first + 1n] = numbers;
  const step = second - first;
  const end = first + step * BigInt(numbers.length);
  return `range(${first}, ${end}${step === 1n ? '' : `, ${step}`})`;
}

function pickedItems(items: readonly Value[], parts: readonly (bigint | boolean | null)[]): Value[] {
  const [start, stop, by] = parts.map((part) => (part === null ? null : Number(part)));
  const step = by ?? 1;
  if (step === 0) throw new RangeError('slice step cannot be zero');
  const { length } = items;
  const [lowest, highest] = step > 0 ? [0, length] : [-1, length - 1];
  const place = (given: number | null | undefined, usual: number) =>
    given == null ? usual : Math.min(highest, Math.max(lowest, given < 0 ? given + length : given));
  const from = place(start, step > 0 ? lowest : highest);
  const to = place(stop, step > 0 ? highest : lowest);
  const count = Math.max(0, Math.ceil((to - from) / step));
  return Array.from({ length: count }, (_, at) => items[from + at * step]!);
}
