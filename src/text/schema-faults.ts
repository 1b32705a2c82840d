/** Checks values against zod schemas, and says in this project's words what is wrong with one. */
import { z } from 'zod';
import { nearest } from './nearest.js';

export interface SchemaFault {
  path: PropertyKey[];
  /** What was expected and what was found; a sentence without a full stop. */
  message: string;
  /** The value is not there at all. */
  missing: boolean;
  /** A field that the schema does not know. `path` leads to its object. */
  unknown: string | undefined;
}

type Checked<S extends z.ZodType> = { data: z.output<S> } | { fault: SchemaFault };

/** The value as the schema gives it, or its first fault. A field of a wrong name comes before one that is missing. */
export function checkAgainst<S extends z.ZodType>(schema: S, value: unknown): Checked<S> {
  const parsed = schema.safeParse(value, { error: describe, reportInput: true });
  if (parsed.success) return { data: parsed.data };
  const { issues } = parsed.error;
  const misnamed = isMissing(issues[0]!)
    ? issues.find(({ code }) => code === 'unrecognized_keys')
    : undefined;
  const issue = misnamed ?? tightest(issues[0]!, issues);
  const missing = isMissing(issue);
  const unknown = issue.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  return { fault: { path: issue.path, message: issue.message, missing, unknown } };
}

/** A check of several fields reports one that is missing as a custom issue without input. */
function isMissing({ code, input }: z.core.$ZodIssue): boolean {
  return (code === 'invalid_type' || code === 'invalid_union' || code === 'custom') && input === undefined;
}

/** Of several limits that a number breaks, the nearest: a whole number has that of exact numbers before its own. */
function tightest(first: z.core.$ZodIssue, issues: readonly z.core.$ZodIssue[]): z.core.$ZodIssue {
  if (first.code !== 'too_big' && first.code !== 'too_small') return first;
  return issues.reduce((best, each) => {
    if (each.path.join('.') !== first.path.join('.')) return best;
    if (each.code === 'too_big' && best.code === 'too_big' && each.maximum < best.maximum) return each;
    if (each.code === 'too_small' && best.code === 'too_small' && each.minimum > best.minimum) return each;
    return best;
  }, first);
}

/** The issues that a schema finds in a value, for the `check` of a schema that leaves the value as it is. */
export function issuesOf(schema: z.ZodType, value: unknown): z.core.$ZodRawIssue[] {
  const { error } = schema.safeParse(value, { error: describe, reportInput: true });
  return (error?.issues ?? []).map((issue) => ({ ...issue, continue: true }) as z.core.$ZodRawIssue);
}

type Issue = Parameters<z.core.$ZodErrorMap>[0];

/** The message of an issue for which the schema itself has none. Every code has one. */
function describe(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `Expected ${NOUNS[issue.expected] ?? issue.expected}, but got ${found(issue.input)}`;
    case 'too_small':
      return bound(issue, Number(issue.minimum), issue.inclusive === false ? 'more than' : 'at least');
    case 'too_big':
      return bound(issue, Number(issue.maximum), issue.inclusive === false ? 'less than' : 'at most');
    case 'invalid_value':
      return `Expected ${alternatives(issue.values.map((value) => JSON.stringify(value) ?? String(value)))}, but got ${found(issue.input)}`;
    case 'invalid_format':
      return `Expected ${form(issue)}, but got ${found(issue.input)}`;
    case 'not_multiple_of':
      return `Expected a multiple of ${issue.divisor}, but got ${found(issue.input)}`;
    case 'unrecognized_keys':
      return unknownField(issue.keys[0]!, issue.inst);
    case 'invalid_union':
      return `Expected a value of another kind than ${found(issue.input)}`;
    case 'invalid_key':
    case 'invalid_element':
      // The schema of the name or of the entry has said what is wrong.
      return issue.issues[0]!.message;
    case 'custom':
      return `Expected another value than ${found(issue.input)}`;
  }
}

const NOUNS: Record<string, string> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
};

type FormatIssue = Extract<Issue, { code: 'invalid_format' }>;

function form({ format, pattern, ...own }: FormatIssue): string {
  if (format === 'uuid') return 'a UUID';
  if (format === 'regex') return `a text that matches ${pattern}`;
  if ('prefix' in own) return `a text that begins with ${JSON.stringify(own.prefix)}`;
  if ('suffix' in own) return `a text that ends with ${JSON.stringify(own.suffix)}`;
  if ('includes' in own) return `a text that contains ${JSON.stringify(own.includes)}`;
  return `a text of the form ${format}`;
}

/** Longest text that a message repeats. */
const MOST_SHOWN = 60;

function found(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value !== 'string') return String(value);
  if (value === '') return 'an empty text';
  return value.length > MOST_SHOWN ? `a text of ${value.length} characters` : JSON.stringify(value);
}

type BoundIssue = Extract<Issue, { code: 'too_small' | 'too_big' }>;

function bound({ origin, exact, input }: BoundIssue, limit: number, how: string): string {
  const of = exact ? '' : `${how} `;
  if (typeof input === 'string') {
    if (how === 'at least' && limit === 1 && !exact) return 'Expected a text that is not empty';
    return `Expected a text of ${of}${counted(limit, 'character')}, but got ${input.length}`;
  }
  if (Array.isArray(input))
    return `Expected a list of ${of}${counted(limit, 'entry')}, but got ${input.length}`;
  if (origin === 'set' || origin === 'map') return `Expected ${of}${counted(limit, 'entry')}`;
  return `Expected a number of ${of}${limit}, but got ${found(input)}`;
}

function counted(count: number, noun: 'character' | 'entry'): string {
  if (count === 1) return `1 ${noun}`;
  return `${count} ${noun === 'entry' ? 'entries' : 'characters'}`;
}

function alternatives(values: string[]): string {
  return values.length < 2 ? values.join('') : `${values.slice(0, -1).join(', ')} or ${values.at(-1)}`;
}

function unknownField(name: string, schema: unknown): string {
  const known = schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
  const meant = nearest(name, known);
  const help = meant === undefined ? `the fields are ${known.join(', ')}` : `did you mean "${meant}"?`;
  return `Unknown field ${JSON.stringify(name.slice(0, 100))}${known.length === 0 ? '' : `; ${help}`}`;
}
