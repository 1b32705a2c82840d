/** The definition of a command's option. */
import type { Parser } from './parsers.js';

/** Headings of the help, in its order. */
export const OPTION_GROUPS = {
  model: 'Model',
  memory: 'Memory',
  speed: 'Speed',
  server: 'Server',
  security: 'Security',
  queue: 'Queue',
} as const;

interface Definition<T> {
  flag: string;
  /** The flag's name before this release, which is still accepted. */
  formerly?: string;
  /** Placeholder for the value in the help. In brackets, the value may be left out. */
  value: string;
  /** Value of a flag that is given without one. */
  bare?: string;
  group: keyof typeof OPTION_GROUPS;
  /** Only `--help-all` and the docs list it. */
  expert?: true;
  /** Default, as a user would write it. Undefined means that the option is required, null that it may stay unset. */
  default: string | null | undefined | ((soFar: Record<string, unknown>, env: NodeJS.ProcessEnv) => string);
  /** The default in words, for the help, when it is computed. */
  defaultText?: string;
  unit?: string;
  /** A short line. */
  help: string;
  /** What else there is to know, for `--help-all` and the docs. */
  more?: string;
  parse: Parser<T>;
}

export interface Option<T> extends Definition<T> {
  /** Name in the environment. */
  env: string;
}

export function option<T>(definition: Definition<T>): Option<T> {
  return { ...definition, env: variableOf(definition.flag) };
}

export function variableOf(flag: string): string {
  return `SIDA_${flag.replaceAll('-', '_').toUpperCase()}`;
}

/** The default in words; undefined for an option that may stay unset. */
export function shownDefault({ default: value, defaultText }: Option<unknown>): string | undefined {
  if (defaultText !== undefined) return defaultText;
  return value === undefined ? 'required' : ((value as string | null) ?? undefined);
}
