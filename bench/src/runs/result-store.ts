/** Finished measurements, one file each, from which an interrupted run continues. */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Measurement, measurementName } from '../scenarios/scenarios.js';
import type { MeasurementResult, MeasurementSpec, Sample } from './result.js';

export class ResultStore {
  readonly #directory: string;

  constructor(results: string) {
    this.#directory = join(results, 'measurements');
  }

  /** Samples of an earlier run, or none if that was measured under another `spec`. */
  read(measurement: Measurement, spec: MeasurementSpec): MeasurementResult {
    const name = measurementName(measurement);
    const empty: MeasurementResult = { ...measurement, name, spec, commits: [], samples: [] };
    if (!existsSync(this.#file(name))) return empty;
    const kept = JSON.parse(readFileSync(this.#file(name), 'utf8')) as MeasurementResult;
    return JSON.stringify(kept.spec) === JSON.stringify(spec) ? kept : empty;
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
