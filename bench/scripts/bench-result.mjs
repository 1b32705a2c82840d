// A bench's result as a file: bench/results/ for those that count, build/bench-quick/ for a smoke run. And where it came from.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { basename } from 'node:path';
import { formatBytes } from '../../dist/config/bytes.js';
import { loadAddon } from '../../dist/native/addon.js';

export const resultFile = (name, quick) => `${quick ? 'build/bench-quick' : 'bench/results'}/${name}.json`;

export function writeResult(name, result, quick = false) {
  const file = resultFile(name, quick);
  if (quick) mkdirSync('build/bench-quick', { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  console.error(file);
}

export function machine() {
  return {
    commit: execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim(),
    machine: `${cpus()[0].model}, ${availableParallelism()} cores, ${formatBytes(totalmem())}`,
    node: process.version,
    isa: loadAddon().cpuFeatures().isa,
  };
}

/** The command of this process; of paths only the names. */
export function commandText(file) {
  const args = process.argv.slice(2).map((arg) => (arg.includes('/') ? basename(arg) : arg));
  return ['node', `bench/${file}`, ...args].join(' ');
}
