/** Parsers of options that take several values. They throw UsageError, which names the option. */
import { wholeNumber } from '../config/parsers.js';
import { UsageError } from '../config/resolve.js';

/** The entries of a list such as `a,b`, without duplicates. */
export function listOf(name: string, text: string): string[] {
  const entries = [...new Set(text.split(',').map((entry) => entry.trim()))];
  if (!entries.includes('')) return entries;
  throw new UsageError(`Expected --${name} to be a list such as a,b, found ${JSON.stringify(text)}`);
}

export function numbers(name: string, text: string, least: number, most: number): number[] {
  return listOf(name, text).map((entry) => number(name, entry, least, most));
}

export function number(name: string, text: string, least: number, most: number): number {
  try {
    return wholeNumber(least, most)(text);
  } catch {
    throw new UsageError(
      `Expected --${name} to be whole numbers from ${least} to ${most}, found ${JSON.stringify(text)}`,
    );
  }
}
