/** What every script of bench/scripts/ has: options with a help, and a result in bench/results/. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { REPOSITORY } from './paths.js';

type Defaults = Record<string, string | boolean | undefined | readonly string[]>;
type Values<T extends Defaults> = {
  [K in keyof T]: T[K] extends boolean
    ? boolean
    : T[K] extends readonly string[]
      ? string[]
      : T[K] extends string
        ? string
        : string | undefined;
};

/**
 * Reads the command line. A default that is a boolean makes a flag, a list an option that may be repeated, and
 * undefined an option without a default. --help prints `help` and ends the process.
 */
export function scriptOptions<const T extends Defaults>(help: string, defaults: T): Values<T> {
  const options: NonNullable<ParseArgsConfig['options']> = { help: { type: 'boolean' } };
  for (const [name, value] of Object.entries(defaults)) {
    const multiple = Array.isArray(value);
    const given = value === undefined ? {} : { default: value as string };
    options[name] = typeof value === 'boolean' ? { type: 'boolean' } : { type: 'string', multiple, ...given };
  }
  const { values } = parseArgs({ options });
  if (values.help !== true) return values as Values<T>;
  console.log(help);
  process.exit(0);
}

/** A smoke run (`quick`) writes to build/bench-quick/, so that its results are not committed. */
export function resultFile(name: string, quick = false): string {
  return join(REPOSITORY, quick ? 'build/bench-quick' : 'bench/results', `${name}.json`);
}

/** The name of a result of speed. Processors with AMX have a result beside that of the others. */
export function nameOfSpeed(name: string, isa: string): string {
  return isa.includes('amx') ? `${name}-amx` : name;
}

/** Prints where it went. */
export function writeResult(name: string, result: object, quick = false): void {
  const file = resultFile(name, quick);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  console.error(file);
}
