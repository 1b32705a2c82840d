/** The texts of values, as Python writes them. */
import type { Budget } from './budget.js';
import { Attributes, Callable, Dict, Series, typeName, Undefined, type Value } from './values.js';

/** Python's `str`. */
export function textOf(value: Value, budget: Budget): string {
  if (typeof value === 'string') return value;
  return value instanceof Undefined ? '' : written(value, budget);
}

/** Python's `repr`. */
export function written(value: Value, budget: Budget): string {
  const text = writtenParts(value, budget);
  budget.make(text.length);
  return text;
}

function writtenParts(value: Value, budget: Budget): string {
  budget.work(0);
  const all = (items: readonly Value[]) => items.map((item) => written(item, budget)).join(', ');
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number') return floatText(value);
  if (typeof value === 'string') return quoted(value);
  if (Array.isArray(value)) return `[${all(value)}]`;
  if (value instanceof Dict) return `{${pairs(value, budget)}}`;
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Callable) return `<function ${value.name}>`;
  if (value instanceof Attributes)
    return value.name === 'Namespace'
      ? `<Namespace {${pairs(new Dict(value.values), budget)}}>`
      : `<${value.name}>`;
  if (value.once) return `<${value.kind} object>`;
  const { kind, items } = value;
  if (kind === 'tuple') return items.length === 1 ? `(${all(items)},)` : `(${all(items)})`;
  return kind === 'range' ? value.text : `${kind}([${all(items)}])`;
}

function pairs(dict: Dict, budget: Budget): string {
  return dict
    .entries()
    .map(([key, value]) => `${written(key, budget)}: ${written(value, budget)}`)
    .join(', ');
}

/** Python writes an exponent below 0.0001 and from 1e16 on. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf';
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0';
  const [mantissa, power] = value.toExponential().split('e') as [string, string];
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const digits = String(Math.abs(exponent)).padStart(2, '0');
    return `${mantissa}e${exponent < 0 ? '-' : '+'}${digits}`;
  }
  const sign = value < 0 ? '-' : '';
  const digits = mantissa.replace(/[-.]/g, '');
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  return `${sign}${whole}.${digits.slice(exponent + 1) || '0'}`;
}

const SHORT_ESCAPES: Record<string, string> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };
/** What Python does not print: control characters, and spaces but for the usual one. */
const UNPRINTABLE = /[\\\p{C}\p{Z}]/gu;

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(UNPRINTABLE, (character) => {
    if (character === ' ') return character;
    const short = SHORT_ESCAPES[character];
    if (short !== undefined) return short;
    const hex = character.codePointAt(0)!.toString(16);
    if (hex.length <= 2) return `\\x${hex.padStart(2, '0')}`;
    return hex.length <= 4 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
  });
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
}

interface JsonStyle {
  ascii: boolean;
  /** What a level is indented by. Undefined: all on one line. */
  indent: string | undefined;
  /** Between items, and behind a key. */
  separators: readonly [string, string];
  sorted: boolean;
}

/** Python's `json.dumps`. */
export function jsonText(value: Value, style: JsonStyle, budget: Budget, level = 0): string {
  budget.work(0);
  const text = jsonOf(value, style, budget, level);
  budget.make(text.length);
  return text;
}

function jsonOf(value: Value, style: JsonStyle, budget: Budget, level: number): string {
  if (value === null) return 'null';
  if (typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  if (typeof value === 'number') return jsonFloat(value);
  if (typeof value === 'string') return jsonString(value, style.ascii);
  const inner = (each: Value) => jsonText(each, style, budget, level + 1);
  if (Array.isArray(value) || (value instanceof Series && value.kind === 'tuple')) {
    const items = Array.isArray(value) ? value : value.items;
    return enclosed('[', items.map(inner), ']', style, level);
  }
  if (value instanceof Dict) {
    const entries = value.entries().map(([key, each]) => [keyText(key), each] as const);
    if (style.sorted) entries.sort(([a], [b]) => (a < b ? -1 : 1));
    const parts = entries.map(
      ([key, each]) => jsonString(key, style.ascii) + style.separators[1] + inner(each),
    );
    return enclosed('{', parts, '}', style, level);
  }
  throw new TypeError(`Object of type ${typeName(value)} is not JSON serializable`);
}

function enclosed(
  open: string,
  parts: readonly string[],
  close: string,
  { indent, separators: [separator] }: JsonStyle,
  level: number,
): string {
  if (parts.length === 0) return open + close;
  if (indent === undefined) return open + parts.join(separator) + close;
  const line = `\n${indent.repeat(level)}`;
  return open + line + indent + parts.join(separator + line + indent) + line + close;
}

function jsonFloat(value: number): string {
  if (Number.isFinite(value)) return floatText(value);
  return Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity';
}

function keyText(key: Value): string {
  if (typeof key === 'string') return key;
  if (key === null) return 'null';
  if (typeof key === 'boolean' || typeof key === 'bigint') return String(key);
  if (typeof key === 'number') return jsonFloat(key);
  throw new TypeError(`keys must be str, int, float, bool or None, not ${typeName(key)}`);
}

function jsonString(text: string, ascii: boolean): string {
  const json = JSON.stringify(text);
  if (!ascii) return json;
  return json.replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
