/** What a result was made with: without it a number says nothing. */
import { execFileSync } from 'node:child_process';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { VERSION } from '../../../dist/config/version.js';
import { loadAddon } from '../../../dist/native/addon.js';
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

/** Of the tree that the program lies in; marked where that has changes. */
function commit(): string {
  const cwd = REPOSITORY;
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    const changed = git('status', '--porcelain', '--untracked-files=no') !== '';
    return git('rev-parse', '--short', 'HEAD') + (changed ? '+changes' : '');
  } catch {
    return 'unknown';
  }
}
