/** The definition of a command's option. */
import type { Parser } from './parsers.js';

export interface Option<T> {
  flag: string;
  /** Placeholder for the value in the help. In brackets, the value may be left out. */
  value: string;
  /** Value of a flag that is given without one. */
  bare?: string;
  env: string;
  /** Default, as a user would write it. Undefined means that the option is required, null that it may stay unset. */
  default: string | null | undefined | ((soFar: Record<string, unknown>, env: NodeJS.ProcessEnv) => string);
  /** The default in words, for the help, when it is computed. */
  defaultText?: string;
  unit?: string;
  help: string;
  parse: Parser<T>;
}

export function option<T>(definition: Option<T>): Option<T> {
  return definition;
}
