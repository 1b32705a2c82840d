/** What an option of a command is. */
import type { Parser } from './parsers.js';

export interface Option<T> {
  flag: string;
  /** What stands for the value in the help. */
  value: string;
  /** What the flag alone means, where `value` is in brackets. */
  bare?: string;
  env: string;
  /** As a user would write it; undefined when the option must be given, null when it may stay unset. */
  default: string | null | undefined | ((soFar: Record<string, unknown>, env: NodeJS.ProcessEnv) => string);
  /** The default in words, where it is computed. */
  defaultText?: string;
  unit?: string;
  help: string;
  parse: Parser<T>;
}

export function option<T>(definition: Option<T>): Option<T> {
  return definition;
}
