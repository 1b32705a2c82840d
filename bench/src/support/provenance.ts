/** What a result was made with: without it a number says nothing. */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { basename, isAbsolute, relative, resolve } from 'node:path';
import { loadAddon } from '../../../dist/native/addon.js';
import { formatBytes } from '../../../dist/text/bytes.js';
import { shellQuote } from '../../../dist/text/shell-quote.js';
import { VERSION } from '../../../dist/version.js';
import { REPOSITORY } from './paths.js';

export interface Provenance {
  commit: string;
  machine: string;
  cores: number;
  memoryBytes: number;
  isa: string;
  node: string;
  sida: string;
}

export function provenance(): Provenance {
  return {
    commit: commit(),
    machine: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    isa: loadAddon().cpuFeatures().isa,
    node: process.version,
    sida: VERSION,
  };
}

/** The same in the words of a script's result, whose tables print them as they are. */
export function scriptProvenance(): { command: string } & Pick<Provenance, 'commit' | 'machine' | 'isa' | 'node'> {
  const { commit, machine, cores, memoryBytes, isa, node } = provenance();
  const about = `${machine}, ${cores} cores, ${formatBytes(memoryBytes)}`;
  return { command: scriptCommand(), commit, machine: about, isa, node };
}

/** The command of this process, a script of bench/scripts/; of paths outside of the repository only the names. */
function scriptCommand(): string {
  return [
    'node',
    ...process.argv.slice(1).map((argument) => shellQuote(argument.split(',').map(withoutMachine).join())),
  ].join(' ');
}

/** A slash alone makes no path: 2GB/s. */
function withoutMachine(argument: string): string {
  if (!argument.includes('/') || !(isAbsolute(argument) || existsSync(argument))) return argument;
  const inside = relative(REPOSITORY, resolve(argument));
  return inside.startsWith('..') ? basename(argument) : inside;
}

/** Of the tree that the laboratory lies in; marked where that has changes. */
function commit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, {
      cwd: REPOSITORY,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  try {
    // An earlier result changes nothing in what runs.
    const changed = git('status', '--porcelain', '--untracked-files=no', '.', ':!bench/results') !== '';
    return git('rev-parse', '--short', 'HEAD') + (changed ? '+changes' : '');
  } catch {
    return 'unknown';
  }
}
