/** Finished measurements, one file each, from which an interrupted run continues. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Measurement, measurementName } from '../scenarios/scenarios.js';
import type { MeasurementResult, MeasurementSpec, Sample } from './result.js';

export class ResultStore {
  readonly #directory: string;

  constructor(results: string) {
    this.#directory = join(results, 'measurements');
  }

  /** Forgets all measurements. */
  clear(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /** Samples of an earlier run, or none if that was measured under another `spec`. */
  read(measurement: Measurement, spec: MeasurementSpec): MeasurementResult {
    const name = measurementName(measurement);
    const empty: MeasurementResult = { ...measurement, name, spec, commits: [], samples: [] };
    const file = this.#file(name);
    if (!existsSync(file)) return empty;
    let kept: MeasurementResult;
    try {
      kept = JSON.parse(readFileSync(file, 'utf8')) as MeasurementResult;
    } catch {
      // A damaged file is measured again.
      return empty;
    }
    return JSON.stringify(kept.spec) === JSON.stringify(spec) && Array.isArray(kept.samples) ? kept : empty;
  }

  /** Adds a sample. The file is the old one or the new one, never a part. */
  add(result: MeasurementResult, sample: Sample, commit: string): MeasurementResult {
    const grown = { ...result, commits: [...result.commits, commit], samples: [...result.samples, sample] };
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
