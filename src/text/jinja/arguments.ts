/** The arguments of functions, filters and tests. */
import type { Budget } from './budget.js';
import { type Named, typeName, type Value } from './values.js';

/** A method of values of a type. */
export type Method<T> = (value: T, args: Value[], named: Named, budget: Budget) => Value;

/** The values of `parameters`, in their order; undefined for what is not given. Throws for others. */
export function bound(
  name: string,
  parameters: readonly string[],
  args: readonly Value[],
  named: Named,
): (Value | undefined)[] {
  if (args.length > parameters.length)
    throw new TypeError(`${name}() takes at most ${parameters.length} arguments (${args.length} given)`);
  const values: (Value | undefined)[] = parameters.map((_, at) => args[at]);
  for (const [key, value] of named) {
    const at = parameters.indexOf(key);
    if (at < 0) throw new TypeError(`${name}() got an unexpected keyword argument '${key}'`);
    if (values[at] !== undefined) throw new TypeError(`${name}() got multiple values for argument '${key}'`);
    values[at] = value;
  }
  return values;
}

export function textArgument(value: Value | undefined, usual?: string): string {
  const given = value ?? usual;
  if (typeof given === 'string') return given;
  throw new TypeError(
    given === undefined ? 'expected one more argument' : `expected str, got ${kind(given)}`,
  );
}

/** A whole number, which `usual` stands for where it is absent or none. */
export function wholeArgument(value: Value | undefined, usual?: number): number {
  if (typeof value === 'bigint' || typeof value === 'boolean') return Number(value);
  if (value == null && usual !== undefined) return usual;
  throw new TypeError(
    value === undefined ? 'expected one more argument' : `expected int, got ${kind(value)}`,
  );
}

function kind(value: Value): string {
  return `'${typeName(value)}'`;
}
