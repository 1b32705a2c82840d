/** Jinja's filters of numbers. */
import { wholeArgument } from './arguments.js';
import type { Budget } from './budget.js';
import { decimal } from './format.js';
import { numberOf } from './operators.js';
import type { Filter } from './text-filters.js';
import { isTrue, typeName, Undefined, type Value } from './values.js';

export const numberFilters: Record<string, Filter> = {
  abs: { parameters: [], run: (_, value) => absolute(value) },
  filesizeformat: {
    parameters: ['binary'],
    run: (_, value, binary = false) => fileSize(value, isTrue(binary)),
  },
  float: { parameters: ['default'], run: (_, value, usual = 0) => toFloat(value) ?? usual },
  int: { parameters: ['default', 'base'], run: toInt },
  round: { parameters: ['precision', 'method'], run: rounded },
};

function absolute(value: Value): Value {
  const number = numberOf(value);
  if (number === undefined) throw new TypeError(`bad operand type for abs(): '${typeName(value)}'`);
  return typeof number === 'bigint' && number < 0n
    ? -number
    : typeof number === 'number'
      ? Math.abs(number)
      : number;
}

function fileSize(value: Value, binary: boolean): Value {
  const bytes = toFloat(value);
  if (bytes === undefined) throw new TypeError(`could not convert '${typeName(value)}' to float`);
  const base = binary ? 1024 : 1000;
  if (bytes === 1) return '1 Byte';
  if (bytes < base) return `${Math.trunc(bytes)} Bytes`;
  const units = 'kMGTPEZY';
  let unit = 0;
  while (unit < units.length - 1 && bytes >= base ** (unit + 2)) unit += 1;
  const name = binary ? `${units[unit]!.toUpperCase()}iB` : `${units[unit]}B`;
  return `${decimal((base * bytes) / base ** (unit + 2), 1)} ${name}`;
}

function rounded(_: Budget, value: Value, precision: Value = 0n, method: Value = 'common'): Value {
  const number = numberOf(value);
  const digits = wholeArgument(precision);
  if (number === undefined) throw new TypeError(`type ${typeName(value)} doesn't define __round__ method`);
  if (Math.abs(digits) > 22) throw new RangeError('the precision is above 22');
  const scale = 10 ** digits;
  if (method === 'ceil' || method === 'floor') {
    return Math[method](Number(number) * scale) / scale;
  }
  if (method !== 'common') throw new TypeError('method must be common, ceil or floor');
  if (typeof number === 'bigint') return digits >= 0 ? number : roundedTo(number, 10n ** BigInt(-digits));
  if (!Number.isFinite(number)) return number;
  return digits >= 0 ? Number(decimal(number, digits)) : Number(decimal(number * scale, 0)) / scale;
}

/** To a multiple of `unit`. A number in the middle becomes the even multiple. */
function roundedTo(number: bigint, unit: bigint): bigint {
  const rest = ((number % unit) + unit) % unit;
  const below = number - rest;
  const up = rest * 2n > unit || (rest * 2n === unit && (below / unit) % 2n !== 0n);
  return up ? below + unit : below;
}

/** Digits with single underscores between them. */
const WHOLE = /^\s*[-+]?\d+(?:_\d+)*\s*$/;
const DECIMAL = /^\s*[-+]?(?:\d+(?:_\d+)*(?:\.(?:\d+(?:_\d+)*)?)?|\.\d+(?:_\d+)*)(?:e[-+]?\d+)?\s*$/i;
const MOST_DIGITS = 256;

function toFloat(value: Value): number | undefined {
  const number = numberOf(value);
  if (number !== undefined) return Number(number);
  if (value instanceof Undefined) throw new TypeError(value.why);
  if (typeof value !== 'string') return undefined;
  const text = value.trim().toLowerCase();
  if (DECIMAL.test(text)) return Number(text.replaceAll('_', ''));
  const special = /^([-+]?)(inf|infinity|nan)$/.exec(text);
  if (special === null) return undefined;
  return special[2] === 'nan' ? Number.NaN : special[1] === '-' ? -Infinity : Infinity;
}

function toInt(_: Budget, value: Value, usual: Value = 0n, base: Value = 10n): Value {
  if (typeof value === 'string') {
    const whole = parsedInt(value, wholeArgument(base));
    if (whole !== undefined) return whole;
  }
  if (typeof value === 'bigint') return value;
  const float = toFloat(value);
  return float === undefined || !Number.isFinite(float) ? usual : BigInt(Math.trunc(float));
}

const PREFIXES: Record<number, string> = { 2: '0b', 8: '0o', 16: '0x' };

function parsedInt(text: string, base: number): bigint | undefined {
  if (base === 10) {
    if (!WHOLE.test(text) || text.length > MOST_DIGITS) return undefined;
    const digits = text.trim().replaceAll('_', '');
    return digits.startsWith('-') ? -BigInt(digits.slice(1)) : BigInt(digits.replace('+', ''));
  }
  const [, sign, body] = /^([-+]?)(.*)$/s.exec(text.trim().toLowerCase().replaceAll('_', '')) ?? [];
  const prefix = PREFIXES[base];
  const digits = prefix !== undefined && body!.startsWith(prefix) ? body!.slice(2) : body!;
  if (digits === '' || digits.length > MOST_DIGITS) return undefined;
  let number = 0n;
  for (const digit of digits) {
    const worth = /[0-9a-z]/.test(digit) ? Number.parseInt(digit, 36) : Number.NaN;
    if (!(worth < base)) return undefined;
    number = number * BigInt(base) + BigInt(worth);
  }
  return sign === '-' ? -number : number;
}
