/** Finished cells, a file each: what an interrupted run goes on from. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { CellResult, CellSpec, Sample } from './result.js';
import { type Cell, cellName } from './scenarios.js';

export class CellStore {
  readonly #directory: string;

  constructor(results: string) {
    this.#directory = join(results, 'cells');
  }

  /** Forgets all cells. */
  clear(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /** Samples of a cell measured before; none where they were measured otherwise than `spec` says. */
  read(cell: Cell, spec: CellSpec): CellResult {
    const name = cellName(cell);
    const empty: CellResult = { ...cell, name, spec, commits: [], samples: [] };
    const file = this.#file(name);
    if (!existsSync(file)) return empty;
    let kept: CellResult;
    try {
      kept = JSON.parse(readFileSync(file, 'utf8')) as CellResult;
    } catch {
      // A damaged file is measured again.
      return empty;
    }
    return JSON.stringify(kept.spec) === JSON.stringify(spec) && Array.isArray(kept.samples) ? kept : empty;
  }

  /** Adds a sample; the file is the old one or the new one, never half of it. */
  add(result: CellResult, sample: Sample, commit: string): CellResult {
    const grown = {
      ...result,
      commits: [...result.commits, commit],
      samples: [...result.samples, sample],
    };
    const file = this.#file(result.name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(`${file}.tmp`, `${JSON.stringify(grown)}\n`);
    renameSync(`${file}.tmp`, file);
    return grown;
  }

  #file(name: string): string {
    return join(this.#directory, `${name}.json`);
  }
}
