/** Python's `%` and `str.format`, as far as templates use them. */
import type { Budget } from './budget.js';
import { floatText, textOf, written } from './print.js';
import { Dict, isTuple, type Named, typeName, Undefined, type Value } from './values.js';

/** Widest field, and most digits. */
const MOST_WIDTH = 1024;

interface Field {
  flags: string;
  width: number;
  precision: number | undefined;
}

const DIRECTIVE = /%(?:\((\w*)\))?([-+ 0#]*)(\d*)(?:\.(\d*))?[hlL]?(.)/gsu;

/** `values` are a tuple, a dict for named fields, or a single value. */
export function formatted(pattern: string, values: Value, budget: Budget): string {
  const list = isTuple(values) ? values.items : [values];
  let at = 0;
  const bounded = bounding(budget);
  const text = pattern.replace(DIRECTIVE, (_, name: string | undefined, flags, width, precision, type) => {
    if (type === '%') return '%';
    if (name !== undefined && !(values instanceof Dict)) throw new TypeError('format requires a mapping');
    const value = name === undefined ? list[at++] : (values as Dict).get(name);
    if (value === undefined) throw new TypeError('not enough arguments for format string');
    const digits = precision === undefined ? undefined : Number(precision);
    const field = { flags, width: Number(width), precision: digits };
    checkWidth(Math.max(field.width, digits ?? 0));
    return bounded(padded(directive(type, value, field, budget), field, type));
  });
  // Python takes a list as what named fields may come from, too.
  const mapping = values instanceof Dict || Array.isArray(values) || values instanceof Undefined;
  if (at < list.length && !mapping)
    throw new TypeError('not all arguments converted during string formatting');
  budget.make(text.length);
  return text;
}

/** Counts the fields of a text before they are joined. */
function bounding(budget: Budget): (field: string) => string {
  let length = 0;
  return (field) => {
    length += field.length;
    budget.fits(length);
    return field;
  };
}

function checkWidth(width: number): void {
  if (width > MOST_WIDTH) throw new Error(`it formats to a width of ${width}, the limit is ${MOST_WIDTH}`);
}

function directive(type: string, value: Value, field: Field, budget: Budget): string {
  if (type === 's') return cut(textOf(value, budget), field);
  if (type === 'r' || type === 'a') return cut(written(value, budget), field);
  const number = typeof value === 'boolean' ? BigInt(value) : value;
  if (typeof number !== 'bigint' && typeof number !== 'number')
    throw new TypeError(`%${type} format: a real number is required, not ${typeName(value)}`);
  return withSign(digitsOf(type, number, field.precision), field.flags);
}

function digitsOf(type: string, number: bigint | number, precision = 6): string {
  const whole = () => (typeof number === 'bigint' ? number : BigInt(Math.trunc(number)));
  switch (type) {
    case 'd':
    case 'i':
    case 'u':
      return String(whole());
    case 'x':
    case 'X': {
      const hex = whole().toString(16);
      return type === 'X' ? hex.toUpperCase() : hex;
    }
    case 'o':
      return whole().toString(8);
    case 'f':
    case 'F':
      return decimal(Number(number), precision);
    case 'e':
    case 'E': {
      const text = Number(number)
        .toExponential(precision)
        .replace(/e([+-])(\d)$/, 'e$10$2');
      return type === 'E' ? text.toUpperCase() : text;
    }
    case 'g':
    case 'G':
      return floatText(Number(Number(number).toPrecision(Math.max(1, precision)))).replace(/\.0$/, '');
  }
  throw new TypeError(`unsupported format character '${type}'`);
}

/** With so many decimals. A number in the middle of two becomes the even one. */
export function decimal(value: number, digits: number): string {
  const text = value.toFixed(digits);
  const exact = value.toFixed(Math.min(100, digits + 60));
  const middle = /^50*$/.test(exact.slice(exact.indexOf('.') + 1 + digits));
  const last = Number(text.at(-1));
  // The library rounds away from zero there.
  return middle && last % 2 === 1 ? text.slice(0, -1) + (last - 1) : text;
}

function cut(text: string, { precision }: Field): string {
  return precision === undefined ? text : text.slice(0, precision);
}

function withSign(digits: string, flags: string): string {
  if (digits.startsWith('-')) return digits;
  return (flags.includes('+') ? '+' : flags.includes(' ') ? ' ' : '') + digits;
}

function padded(text: string, { flags, width }: Field, type: string): string {
  if (flags.includes('-')) return text.padEnd(width);
  if (!flags.includes('0') || 'sra'.includes(type)) return text.padStart(width);
  const [sign] = /^[-+ ]?/.exec(text)!;
  return sign + text.slice(sign.length).padStart(width - sign.length, '0');
}

const REPLACED = /\{\{|\}\}|\{([^{}!:]*)(?:!([sr]))?(?::([^{}]*))?\}|[{}]/g;
const SPEC = /^(?:(.)?([<>^=]))?([-+ ]?)(0?)(\d*)(,?)(?:\.(\d+))?([sdfFxXoeEgG%]?)$/su;

/** Python's `str.format`. */
export function formatFields(pattern: string, args: readonly Value[], named: Named, budget: Budget): string {
  let next = 0;
  const bounded = bounding(budget);
  const text = pattern.replace(REPLACED, (found, path: string | undefined, conversion, spec = '') => {
    if (found === '{{' || found === '}}') return found.slice(1);
    if (path === undefined) throw new TypeError("Single '{' or '}' encountered in format string");
    const value = path === '' ? args[next++] : /^\d+$/.test(path) ? args[Number(path)] : named.get(path);
    if (value === undefined) throw new TypeError(`format string has no value for {${path}}`);
    if (conversion === 'r') return bounded(specified(written(value, budget), spec, budget));
    return bounded(specified(conversion === 's' ? textOf(value, budget) : value, spec, budget));
  });
  budget.make(text.length);
  return text;
}

function specified(value: Value, spec: string, budget: Budget): string {
  if (spec === '') return textOf(value, budget);
  const parts = SPEC.exec(spec);
  if (parts === null) throw new TypeError(`Invalid format specifier '${spec}'`);
  const [, fill, align, sign = '', zero, width, comma, precision, type] = parts;
  const number = typeof value === 'bigint' || typeof value === 'number';
  checkWidth(Math.max(Number(width), Number(precision ?? 0)));
  const field = { flags: sign, width: 0, precision: precision === undefined ? undefined : Number(precision) };
  const usual = typeof value === 'bigint' ? 'd' : field.precision === undefined ? 's' : 'g';
  let text =
    type === '%'
      ? `${directive('f', Number(value) * 100, field, budget)}%`
      : directive(type || (number ? usual : 's'), value, field, budget);
  if (comma) text = text.replace(/\d+/, (digits) => digits.replace(/\B(?=(\d{3})+$)/g, ','));
  if (zero && align === undefined) return padded(text, { ...field, flags: '0', width: Number(width) }, 'd');
  return aligned(text, Number(width), align ?? (number ? '>' : '<'), fill ?? ' ');
}

function aligned(text: string, width: number, align: string, fill: string): string {
  if (align === '^') return centred(text, width, fill);
  return align === '<' ? text.padEnd(width, fill) : text.padStart(width, fill);
}

function centred(text: string, width: number, fill: string): string {
  const before = Math.floor(Math.max(0, width - text.length) / 2);
  return text.padStart(text.length + before, fill).padEnd(width, fill);
}
