/** The methods of Python's `str`. */
import { bound, type Method, textArgument, wholeArgument } from './arguments.js';
import type { Budget } from './budget.js';
import { formatFields } from './format.js';
import { charactersOf, isTuple, iterate, textLength, tuple, typeName, type Value } from './values.js';

/** What Python takes as white space, in a class of a regular expression. */
export const SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const SPACES = new RegExp(`[${SPACE}]`);
const WORDS = new RegExp(`[^${SPACE}]+`, 'g');
const LINE_END = '\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029';
const LINE_ENDS = new RegExp(`\\r\\n|[${LINE_END}]`, 'g');

/** `chars` are a set of characters; absent or none: white space. */
export function stripped(text: string, chars: Value | undefined, ends: 'both' | 'left' | 'right'): string {
  const set = chars == null ? undefined : new Set(charactersOf(textArgument(chars)));
  const falls = (character: string) => (set === undefined ? SPACES.test(character) : set.has(character));
  let [from, to] = [0, text.length];
  const at = (place: number) => String.fromCodePoint(text.codePointAt(place)!);
  const before = (place: number) =>
    /[\udc00-\udfff]/.test(text[place - 1]!) && place > from + 1 ? at(place - 2) : text[place - 1]!;
  if (ends !== 'right') while (from < to && falls(at(from))) from += at(from).length;
  if (ends !== 'left') while (to > from && falls(before(to))) to -= before(to).length;
  return text.slice(from, to);
}

function split(text: string, args: Value[], named: ReadonlyMap<string, Value>, right: boolean): string[] {
  const [sep, limit] = bound('split', ['sep', 'maxsplit'], args, named);
  const most = wholeArgument(limit, -1);
  if (sep == null) return splitAtSpaces(text, most, right);
  const separator = textArgument(sep);
  if (separator === '') throw new TypeError('empty separator');
  const parts = text.split(separator);
  if (most < 0 || parts.length <= most + 1) return parts;
  const cut = parts.length - most - 1;
  return right
    ? [parts.slice(0, cut + 1).join(separator), ...parts.slice(cut + 1)]
    : [...parts.slice(0, most), parts.slice(most).join(separator)];
}

function splitAtSpaces(text: string, most: number, right: boolean): string[] {
  const words = [...text.matchAll(WORDS)];
  if (most < 0 || words.length <= most) return words.map(([word]) => word);
  if (right) {
    const kept = most === 0 ? [] : words.slice(-most);
    const end = kept[0]?.index ?? text.length;
    const rest = stripped(text.slice(0, end), null, 'right');
    return [...(rest === '' ? [] : [rest]), ...kept.map(([word]) => word)];
  }
  const rest = words[most] === undefined ? '' : text.slice(words[most].index);
  return [...words.slice(0, most).map(([word]) => word), ...(rest === '' ? [] : [rest])];
}

export function replaced(text: string, old: string, by: string, limit: number, budget: Budget): string {
  budget.work(text.length);
  const parts = old === '' ? ['', ...charactersOf(text), ''] : text.split(old);
  const count = limit < 0 ? parts.length - 1 : Math.min(limit, parts.length - 1);
  budget.make(text.length + count * (by.length - old.length));
  if (count === parts.length - 1) return parts.join(by);
  return [...parts.slice(0, count), parts.slice(count).join(old)].join(by);
}

export function linesOf(text: string, keepEnds = false): string[] {
  const lines: string[] = [];
  let from = 0;
  for (const { 0: end, index } of text.matchAll(LINE_ENDS)) {
    lines.push(text.slice(from, index + (keepEnds ? end.length : 0)));
    from = index + end.length;
  }
  if (from < text.length) lines.push(text.slice(from));
  return lines;
}

export function capitalized(text: string): string {
  const end = (text.codePointAt(0) ?? 0) > 0xffff ? 2 : 1;
  return text.slice(0, end).toUpperCase() + text.slice(end).toLowerCase();
}

export function centred(text: string, width: number, fill: string, budget: Budget): string {
  const pad = Math.max(0, width - textLength(text));
  budget.make(text.length + pad);
  const left = Math.floor(pad / 2) + (pad & width & 1);
  return fill.repeat(left) + text + fill.repeat(pad - left);
}

function filled(text: string, args: Value[], budget: Budget): [fill: string, pad: number] {
  const fill = textArgument(args[1], ' ');
  if (textLength(fill) !== 1) throw new TypeError('The fill character must be exactly one character long');
  const pad = Math.max(0, wholeArgument(args[0]) - textLength(text));
  budget.make(text.length + pad);
  return [fill, pad];
}

/** Whether the text begins or ends with one of the texts. */
function meets(text: string, args: Value[], test: (part: string, other: string) => boolean): boolean {
  const [given, start, stop] = args;
  const part = start == null && stop == null ? text : sliced(text, start, stop);
  const others = given !== undefined && isTuple(given) ? given.items : [given];
  return others.some((other) => test(part, textArgument(other)));
}

function sliced(text: string, start: Value | undefined, stop: Value | undefined): string {
  return charactersOf(text)
    .slice(wholeArgument(start, 0), stop == null ? undefined : wholeArgument(stop))
    .join('');
}

/** A search from the end compares every place with the whole wanted text. */
function lastPlace(text: string, wanted: string, budget: Budget): number {
  budget.work(text.length * wanted.length);
  return text.lastIndexOf(wanted);
}

function found(text: string, args: Value[], last: boolean, budget: Budget): number {
  const [given, start, stop] = args;
  const wanted = textArgument(given);
  const from = wholeArgument(start, 0);
  const part = start == null && stop == null ? text : sliced(text, start, stop);
  const at = last ? lastPlace(part, wanted, budget) : part.indexOf(wanted);
  if (at < 0) return -1;
  return textLength(part.slice(0, at)) + (from < 0 ? Math.max(0, from + textLength(text)) : from);
}

function occurrences(
  text: string,
  wanted: string,
  start: Value | undefined,
  stop: Value | undefined,
): number {
  const part = start == null && stop == null ? text : sliced(text, start, stop);
  if (wanted !== '') return part.split(wanted).length - 1;
  const [length, from] = [textLength(text), wholeArgument(start, 0)];
  const to = Math.min(length, wholeArgument(stop, length));
  const [begin, end] = [from, to].map((at) => (at < 0 ? Math.max(0, at + length) : at)) as [number, number];
  return begin > end ? 0 : end - begin + 1;
}

function parted(text: string, separator: string, at: number, whole: Value[]): Value {
  if (separator === '') throw new TypeError('empty separator');
  return at < 0 ? tuple(...whole) : tuple(text.slice(0, at), separator, text.slice(at + separator.length));
}

function every(text: string, class_: RegExp): boolean {
  return text !== '' && class_.test(text);
}

/** Whether all letters that have a case are in this one, and there is one. */
export function isCased(text: string, to: 'lower' | 'upper'): boolean {
  const other = to === 'lower' ? /[\p{Lu}\p{Lt}]/u : /[\p{Ll}\p{Lt}]/u;
  return !other.test(text) && (to === 'lower' ? /\p{Lowercase}/u : /\p{Uppercase}/u).test(text);
}

const WORD = /\p{Cased}+/gu;

export const textMethods: Record<string, Method<string>> = {
  upper: (text) => text.toUpperCase(),
  lower: (text) => text.toLowerCase(),
  casefold: (text) => text.toUpperCase().toLowerCase(),
  swapcase: (text) =>
    text.replace(/\p{Cased}/gu, (letter) =>
      letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
    ),
  capitalize: (text) => capitalized(text),
  title: (text) => text.replace(WORD, capitalized),
  strip: (text, args) => stripped(text, args[0], 'both'),
  lstrip: (text, args) => stripped(text, args[0], 'left'),
  rstrip: (text, args) => stripped(text, args[0], 'right'),
  split: (text, args, named, budget) => counted(split(text, args, named, false), text, budget),
  rsplit: (text, args, named, budget) => counted(split(text, args, named, true), text, budget),
  splitlines: (text, args, named, budget) => {
    const [keep] = bound('splitlines', ['keepends'], args, named);
    return counted(linesOf(text, keep === true), text, budget);
  },
  replace: (text, args, named, budget) => {
    const [old, by, count] = bound('replace', ['old', 'new', 'count'], args, named);
    return replaced(text, textArgument(old), textArgument(by), wholeArgument(count, -1), budget);
  },
  startswith: (text, args) => meets(text, args, (part, other) => part.startsWith(other)),
  endswith: (text, args) => meets(text, args, (part, other) => part.endsWith(other)),
  removeprefix: (text, [prefix]) =>
    text.startsWith(textArgument(prefix)) ? text.slice(textArgument(prefix).length) : text,
  removesuffix: (text, [suffix]) =>
    text.endsWith(textArgument(suffix)) ? text.slice(0, text.length - textArgument(suffix).length) : text,
  find: (text, args, _named, budget) => BigInt(found(text, args, false, budget)),
  rfind: (text, args, _named, budget) => BigInt(found(text, args, true, budget)),
  index: (text, args, _named, budget) => placed(found(text, args, false, budget)),
  rindex: (text, args, _named, budget) => placed(found(text, args, true, budget)),
  count: (text, [wanted, start, stop]) => BigInt(occurrences(text, textArgument(wanted), start, stop)),
  partition: (text, [separator]) =>
    parted(text, textArgument(separator), text.indexOf(textArgument(separator)), [text, '', '']),
  rpartition: (text, [separator], _named, budget) =>
    parted(text, textArgument(separator), lastPlace(text, textArgument(separator), budget), ['', '', text]),
  join: (text, [list = null], _named, budget) => {
    const items = iterate(list, budget);
    const wrong = items.find((item) => typeof item !== 'string');
    if (wrong !== undefined) throw new TypeError(`sequence item: expected str, ${typeName(wrong)} found`);
    return joined(items as string[], text, budget);
  },
  center: (text, args, _named, budget) => {
    const [fill] = filled(text, args, budget);
    return centred(text, wholeArgument(args[0]), fill, budget);
  },
  ljust: (text, args, _named, budget) => {
    const [fill, pad] = filled(text, args, budget);
    return text + fill.repeat(pad);
  },
  rjust: (text, args, _named, budget) => {
    const [fill, pad] = filled(text, args, budget);
    return fill.repeat(pad) + text;
  },
  zfill: (text, [width], _named, budget) => {
    const [, pad] = filled(text, [width!], budget);
    const [sign] = /^[-+]?/.exec(text)!;
    return sign + '0'.repeat(pad) + text.slice(sign.length);
  },
  expandtabs: (text, args, named, budget) => {
    const size = wholeArgument(bound('expandtabs', ['tabsize'], args, named)[0], 8);
    budget.make(text.length + (text.split('\t').length - 1) * Math.max(0, size));
    return text.replace(/([^\t\n\r]*)(\t?)/g, (_, before: string, tab: string) =>
      tab === '' || size <= 0 ? before : before + ' '.repeat(size - (textLength(before) % size)),
    );
  },
  format: (text, args, named, budget) => formatFields(text, args, named, budget),
  isalpha: (text) => every(text, /^\p{L}+$/u),
  isdigit: (text) => every(text, /^[\p{Nd}²³¹⁰⁴-⁹₀-₉]+$/u),
  isdecimal: (text) => every(text, /^\p{Nd}+$/u),
  isnumeric: (text) => every(text, /^\p{N}+$/u),
  isalnum: (text) => every(text, /^[\p{L}\p{N}]+$/u),
  isspace: (text) => every(text, new RegExp(`^[${SPACE}]+$`)),
  isascii: (text) => /^\p{ASCII}*$/u.test(text),
  isidentifier: (text) => every(text, /^[\p{ID_Start}_]\p{ID_Continue}*$/u),
  islower: (text) => isCased(text, 'lower'),
  isupper: (text) => isCased(text, 'upper'),
  istitle: (text) => /\p{Cased}/u.test(text) && text === text.replace(WORD, capitalized),
};

function counted(parts: string[], text: string, budget: Budget): string[] {
  budget.make(parts.length);
  budget.work(text.length);
  return parts;
}

function placed(at: number): bigint {
  if (at < 0) throw new RangeError('substring not found');
  return BigInt(at);
}

export function joined(items: readonly string[], separator: string, budget: Budget): string {
  const length = items.reduce((sum, item) => sum + item.length, 0);
  budget.make(length + separator.length * Math.max(0, items.length - 1));
  return items.join(separator);
}
