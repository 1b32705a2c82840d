/** What every script of bench/scripts/ has: options with a help, and a result in bench/results/. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { REPOSITORY } from './paths.js';

const QUICK = /--quick \(([^)]*)\)/;

/**
 * The command line of a script whose `help` declares the options, in brackets or at the beginning of a line:
 * `--rounds 10` has this default, `--model DIR` none, `--only PATTERN…` may be repeated, `--quick` is a flag. In
 * `--quick (--rounds 1)` stand the defaults of a quick run. Values of numeric options are numbers.
 */
export function optionsOf(help: string): Record<string, unknown> {
  const [, quick = ''] = QUICK.exec(help) ?? [];
  const declared = [...help.replace(QUICK, '--quick').matchAll(/\[(--[^\]]+)\]|^ {2}(--\S+(?: \S+)*)/gm)];
  const text = declared.map(([, bracketed, line]) => bracketed ?? line).join(' ');
  const options: NonNullable<ParseArgsConfig['options']> = { help: { type: 'boolean' } };
  const numeric = new Set<string>();
  const values: Record<string, unknown> = {};
  for (const [, name, value] of text.matchAll(/--([\w-]+)(?:[ =](?!--)(\S+))?/g)) {
    const multiple = value?.endsWith('…') === true;
    options[name!] = { type: value === undefined ? 'boolean' : 'string', multiple };
    if (value === 'N' || Number.isFinite(Number(value))) numeric.add(name!);
    values[name!] = value === undefined ? false : multiple ? [] : /^[A-Z]/.test(value) ? undefined : value;
  }
  const { values: typed } = parseArgs({ options });
  if (typed.help === true) {
    console.log(help);
    process.exit(0);
  }
  if (typed.quick === true) for (const [, name, value] of quick.matchAll(/--([\w-]+) (\S+)/g)) values[name!] = value;
  Object.assign(values, typed);
  for (const name of numeric) if (Number.isFinite(Number(values[name]))) values[name] = Number(values[name]);
  return values;
}

/** A temporary directory that goes with this process. */
export function scratchDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'sida-bench-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** The words of a command line; what is put in stays one word. */
export function words(texts: TemplateStringsArray, ...values: readonly unknown[]): string[] {
  const marked = texts.map((text, i) => (i < values.length ? `${text}\0${i}\0` : text)).join('');
  const filled = (word: string) => word.replace(/\0(\d+)\0/g, (_, i) => String(values[Number(i)]));
  return marked.split(/\s+/).filter(Boolean).map(filled);
}

/** A smoke run (`quick`) writes to build/bench-quick/, so that its results are not committed. */
export function resultFile(name: string, quick = false): string {
  return join(REPOSITORY, quick ? 'build/bench-quick' : 'bench/results', `${name}.json`);
}

/** The name of a result of speed. Processors with AMX have a result beside that of the others. */
export function nameOfSpeed(name: string, isa: string): string {
  return isa.includes('amx') ? `${name}-amx` : name;
}

/** The entries of an earlier result but those that `fresh` measures again, and then `fresh`. */
export function merged<T>(
  name: string,
  list: string,
  fresh: readonly T[],
  key: (entry: T) => string,
  quick: boolean,
): T[] {
  const file = resultFile(name, quick);
  const before = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8'))[list] as T[]) : [];
  const keys = new Set(fresh.map(key));
  return [...before.filter((entry) => !keys.has(key(entry))), ...fresh];
}

/** Prints where it went. */
export function writeResult(name: string, result: object, quick = false): void {
  const file = resultFile(name, quick);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  console.error(file);
}
