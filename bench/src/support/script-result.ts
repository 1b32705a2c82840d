/** Results of scripts: bench/results/ for those that count, build/bench-quick/ for a smoke run. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

export function resultFile(name: string, quick = false): string {
  return `${quick ? 'build/bench-quick' : 'bench/results'}/${name}.json`;
}

/** Prints where it went. */
export function writeResult(name: string, result: object, quick = false): void {
  const file = resultFile(name, quick);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  console.error(file);
}
