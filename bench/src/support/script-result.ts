/** Results of scripts: bench/results/ for those that count, build/bench-quick/ for a smoke run. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

export function resultFile(name: string, quick = false): string {
  return `${quick ? 'build/bench-quick' : 'bench/results'}/${name}.json`;
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
