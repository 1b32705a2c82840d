/** Numbers of flags that are not in the option table. */
import { UsageError } from '../config/resolve.js';

export function wholeNumberOf(name: string, text: unknown, least: number, most: number): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new UsageError(
    `Expected --${name} to be a whole number from ${least} to ${most}, found ${JSON.stringify(text)}`,
  );
}
