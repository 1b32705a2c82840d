// A bench's result as a file: bench/results/ for those that count, build/bench-quick/ for a smoke run.
import { mkdirSync, writeFileSync } from 'node:fs';

export const resultFile = (name, quick) => `${quick ? 'build/bench-quick' : 'bench/results'}/${name}.json`;

export function writeResult(name, result, quick = false) {
  const file = resultFile(name, quick);
  if (quick) mkdirSync('build/bench-quick', { recursive: true });
  writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  console.error(file);
}

export const quantile = (values, q) => {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
};
