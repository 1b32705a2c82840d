/** Jinja's filters of texts. Most take any value, as its text. */
import { textArgument, wholeArgument } from './arguments.js';
import type { Budget } from './budget.js';
import { textOf } from './print.js';
import { capitalized, centred, joined, linesOf, replaced, stripped } from './text-methods.js';
import {
  charactersOf,
  Dict,
  isTrue,
  itemsOf,
  lengthOf,
  textLength,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** A filter with the names of its parameters. `run` gets their values, undefined for those that are absent. */
export interface Filter {
  parameters: readonly string[];
  run(budget: Budget, value: Value, ...values: (Value | undefined)[]): Value;
}

const NONE: readonly string[] = [];

/** Where Jinja's `title` begins a word. */
const WORD_BEGINNING = /([-\s({[<]+)/;

const escapes: Filter = { parameters: NONE, run: (budget, value) => escaped(textOf(value, budget), budget) };
const text: Filter = { parameters: NONE, run: (budget, value) => textOf(value, budget) };

export const textFilters: Record<string, Filter> = {
  capitalize: { parameters: NONE, run: (budget, value) => capitalized(textOf(value, budget)) },
  center: {
    parameters: ['width'],
    run: (budget, value, width) => centred(textOf(value, budget), wholeArgument(width, 80), ' ', budget),
  },
  e: escapes,
  escape: escapes,
  forceescape: escapes,
  indent: { parameters: ['width', 'first', 'blank'], run: indented },
  lower: { parameters: NONE, run: (budget, value) => textOf(value, budget).toLowerCase() },
  replace: {
    parameters: ['old', 'new', 'count'],
    run: (budget, value, old, by, count) =>
      replaced(
        textOf(value, budget),
        given(old, budget),
        given(by, budget),
        wholeArgument(count, -1),
        budget,
      ),
  },
  safe: text,
  string: text,
  title: {
    parameters: NONE,
    run: (budget, value) => textOf(value, budget).split(WORD_BEGINNING).map(capitalized).join(''),
  },
  trim: {
    parameters: ['chars'],
    run: (budget, value, chars) => stripped(textOf(value, budget), chars, 'both'),
  },
  truncate: { parameters: ['length', 'killwords', 'end', 'leeway'], run: truncated },
  upper: { parameters: NONE, run: (budget, value) => textOf(value, budget).toUpperCase() },
  urlencode: { parameters: NONE, run: urlEncoded },
  xmlattr: { parameters: ['autospace'], run: attributes },
  wordcount: {
    parameters: NONE,
    run: (budget, value) => BigInt(textOf(value, budget).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0),
  },
};

function given(value: Value | undefined, budget: Budget): string {
  if (value === undefined) throw new TypeError('replace expects two arguments');
  return textOf(value, budget);
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  "'": '&#39;',
  '"': '&#34;',
};

export function escaped(given: string, budget: Budget): string {
  budget.make(given.length);
  return given.replace(/[&<>'"]/g, (character) => ENTITIES[character]!);
}

function urlEncoded(budget: Budget, value: Value): string {
  if (typeof value !== 'string' && itemsOf(value) !== undefined)
    throw new TypeError(`urlencode of '${typeName(value)}' is not supported`);
  const given = textOf(value, budget);
  budget.make(given.length);
  return encodeURIComponent(given)
    .replaceAll('%2F', '/')
    .replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}

function attributes(budget: Budget, value: Value, space: Value = true): string {
  if (!(value instanceof Dict)) throw new TypeError(`'${typeName(value)}' object has no attribute 'items'`);
  const given = value.entries().filter(([, own]) => own !== null && !(own instanceof Undefined));
  const written = given.map(([key, own]) => {
    const name = textArgument(key);
    if (/[ \t\n\r\f\v/>=]/.test(name)) throw new TypeError(`Invalid character in attribute name: '${name}'`);
    return `${escaped(name, budget)}="${escaped(textOf(own, budget), budget)}"`;
  });
  const all = joined(written, ' ', budget);
  return all !== '' && isTrue(space) ? ` ${all}` : all;
}

/** Widest indentation of a line, in characters. */
const MOST_INDENT = 32;

export function indentation(width: Value): string {
  const count = typeof width === 'string' ? width.length : wholeArgument(width);
  if (count > MOST_INDENT) throw new Error(`it indents by ${count}, the limit is ${MOST_INDENT}`);
  return typeof width === 'string' ? width : ' '.repeat(Math.max(0, count));
}

function indented(
  budget: Budget,
  value: Value,
  width: Value = 4n,
  first: Value = false,
  blank: Value = false,
): Value {
  if (value instanceof Undefined) throw new TypeError(value.why);
  const indent = indentation(width);
  const lines = linesOf(`${textArgument(value)}\n`);
  budget.make(lines.length);
  const indents = (line: string, at: number) => (at === 0 ? isTrue(first) : isTrue(blank) || line !== '');
  return joined(
    lines.map((line, at) => (indents(line, at) ? indent + line : line)),
    '\n',
    budget,
  );
}

function truncated(
  _: Budget,
  value: Value,
  length?: Value,
  kills: Value = false,
  end: Value = '...',
  leeway?: Value,
): Value {
  const most = wholeArgument(length, 255);
  const ending = textArgument(end);
  const spare = wholeArgument(leeway, 5);
  const kept = most - textLength(ending);
  if (kept < 0) throw new RangeError(`expected length >= ${textLength(ending)}, got ${most}`);
  if (spare < 0) throw new RangeError(`expected leeway >= 0, got ${spare}`);
  const whole = lengthOf(value);
  if (whole === undefined) throw new TypeError(`object of type '${typeName(value)}' has no len()`);
  if (whole <= most + spare) return value;
  const begin = charactersOf(textArgument(value)).slice(0, kept).join('');
  const space = begin.lastIndexOf(' ');
  return (isTrue(kills) || space < 0 ? begin : begin.slice(0, space)) + ending;
}
