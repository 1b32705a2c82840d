/** Checks what a schema says of texts and numbers, and how many characters or items there may be. */
import { hasIntegers, hasNumbers, type NumberBounds } from './number-rules.js';
import { patternRule } from './pattern-rules.js';
import type { Schema } from './schema.js';
import { refuse, shown } from './schema-fault.js';
import { SCHEMA_LIMITS } from './schema-limits.js';
import type { SchemaWork } from './schema-work.js';
import { STRING_FORMATS } from './string-formats.js';

const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'];
/** So that every number within has digits that are read exactly. */
const MOST_BOUND = 1e12;
const FORMATS = Object.keys(STRING_FORMATS);

export function checkText(schema: Schema, path: readonly string[], work: SchemaWork): void {
  checkCounts(schema, 'minLength', 'maxLength', path);
  const { pattern, format } = schema;
  const binding = ['pattern', 'format', 'minLength', 'maxLength'].filter(
    (name) => schema[name] !== undefined,
  );
  if (binding.length > 1 && (pattern !== undefined || format !== undefined))
    refuse(path, `a grammar can follow only one of ${binding.join(', ')}`);
  if (format !== undefined && !FORMATS.includes(format as string))
    refuse([...path, 'format'], `expected one of ${FORMATS.join(', ')}, found ${shown(format)}`);
  if (pattern !== undefined) checkPattern(pattern, [...path, 'pattern'], work);
}

function checkPattern(pattern: unknown, path: readonly string[], work: SchemaWork): void {
  if (typeof pattern !== 'string') refuse(path, `expected a regular expression, found ${shown(pattern)}`);
  work.pattern(pattern.length, path);
  try {
    patternRule(pattern);
  } catch (error) {
    refuse(path, (error as Error).message);
  }
}

export function checkNumbers(schema: Schema, types: readonly string[], path: readonly string[]): void {
  for (const name of BOUNDS) {
    const value = schema[name];
    if (value === undefined) continue;
    const at = [...path, name];
    if (typeof value !== 'number') refuse(at, `expected a number, found ${shown(value)}`);
    if (Math.abs(value) > MOST_BOUND) refuse(at, `a bound may be at most ${MOST_BOUND}, found ${value}`);
    if (types.includes('number') && !Number.isInteger(value))
      refuse(at, `a grammar can follow only whole bounds, found ${value}`);
  }
  const there = types.includes('number') ? hasNumbers : hasIntegers;
  if (!there(schema as NumberBounds)) refuse(path, 'its bounds leave no number');
}

export function checkCounts(schema: Schema, least: string, most: string, path: readonly string[]): void {
  for (const name of [least, most]) {
    const value = schema[name];
    if (value === undefined) continue;
    if (!Number.isSafeInteger(value) || (value as number) < 0)
      refuse([...path, name], `expected a whole number from 0, found ${shown(value)}`);
    checkRepeats(value as number, [...path, name]);
  }
  checkOrder(schema, least, most, path);
}

function checkRepeats(count: number, path: readonly string[]): void {
  if (count > SCHEMA_LIMITS.repeats)
    refuse(path, `${count} repetitions are more than the limit of ${SCHEMA_LIMITS.repeats}`);
}

function checkOrder(schema: Schema, least: string, most: string, path: readonly string[]): void {
  const [from, to] = [schema[least], schema[most]];
  if (typeof from === 'number' && typeof to === 'number' && from > to)
    refuse(path, `"${least}" of ${from} is above "${most}" of ${to}`);
}
