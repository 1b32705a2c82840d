/**
 * Runs measurements model by model, and round by round over a model's systems, so that a slow minute affects all alike.
 */
import { SidaError } from '../../../dist/errors.js';
import { formatBytes } from '../../../dist/text/bytes.js';
import { missingInputs } from '../preparation/inputs.js';
import { type Maker, removeModel } from '../preparation/prepare.js';
import type { Sizes } from '../preparation/sizes.js';
import { type BenchModel, modelNamed } from '../scenarios/models.js';
import { type Measurement, measurementName } from '../scenarios/scenarios.js';
import { run } from '../support/processes.js';
import { provenance } from '../support/provenance.js';
import type { MeasurementWork } from '../systems/work.js';
import { judgeExactness } from './exactness.js';
import type { Gpu } from './gpu.js';
import { type ModelBench, prepareBench } from './model-bench.js';
import type { BenchResult, MeasurementResult, ModelFacts, Sample, Skipped } from './result.js';
import { ResultStore } from './result-store.js';
import { specOf, workOf } from './work-of.js';

const MEASURING_PROCESS = new URL('../systems/measuring-process.js', import.meta.url).pathname;

export interface MeasureOptions {
  /** The command as the user gave it. */
  command: string;
  quick: boolean;
  measurements: readonly Measurement[];
  /** The order, if it matters: a stage is measured completely before the next one. */
  stages?: readonly (readonly Measurement[])[];
  sizes: Sizes;
  /** Directory of results. */
  out: string;
  /** Directory of packs, traces and predictors. */
  work: string;
  /** Directory of the tasks' texts. */
  data: string | undefined;
  threads: number;
  /** Keep packs of random weights. */
  keep: boolean;
  /** Set for measurements on cuda. */
  gpu?: Gpu;
  /** Aborted when the time is over. */
  signal?: AbortSignal | undefined;
  /** Make packs, traces and predictors, and measure nothing. */
  prepareOnly?: boolean;
  /** Called after each sample with the result so far. */
  onResult?: (result: BenchResult) => void;
}

export async function measureAll(options: MeasureOptions, say: (text: string) => void): Promise<BenchResult> {
  const begin = performance.now();
  const bench = new Run(options, say);
  for (const measurements of options.stages ?? [options.measurements]) {
    const models = new Set(measurements.map(({ scenario }) => scenario.model));
    for (const name of models) {
      const own = measurements.filter(({ scenario }) => scenario.model === name);
      await bench.runModel(modelNamed(name), own);
    }
  }
  if (!options.keep) bench.removeModels();
  return bench.result((performance.now() - begin) / 1000);
}

class Run {
  readonly #options: MeasureOptions;
  readonly #say: (text: string) => void;
  readonly #store: ResultStore;
  readonly #maker: Maker;
  readonly #provenance = provenance();
  readonly #models = new Map<string, ModelFacts>();
  readonly #skipped: Skipped[] = [];
  readonly #warnings = new Set<string>();
  readonly #results = new Map<string, MeasurementResult>();
  readonly #total: number;
  /** Measurements whose process failed. */
  readonly #failed: string[] = [];
  readonly #begun = performance.now();
  #done = 0;

  constructor(options: MeasureOptions, say: (text: string) => void) {
    this.#options = options;
    this.#say = say;
    this.#store = new ResultStore(options.out);
    const { work, threads, gpu, signal } = options;
    this.#maker = { ...{ work, threads, signal }, device: gpu && 'cuda', onStep: say };
    this.#total = options.measurements.length * options.sizes.rounds;
  }

  async runModel(model: BenchModel, measurements: readonly Measurement[]): Promise<void> {
    const { sizes, prepareOnly } = this.#options;
    const runnable = measurements.filter((measurement) => this.#canRun(measurement));
    if (runnable.length === 0) return;
    let bench: ModelBench;
    try {
      const warn = (message: string) => this.#warn(message);
      bench = await prepareBench(model, runnable, this.#options, this.#maker, warn);
    } catch (error) {
      // A model that cannot be made must not spoil the others' results.
      if (!(error instanceof SidaError)) throw error;
      for (const measurement of runnable) this.#skip(measurement, this.#endedOr(error.message));
      return;
    }
    const { facts } = bench;
    const earlier = this.#models.get(model.name);
    if (earlier !== undefined) facts.data = { ...earlier.data, ...facts.data };
    this.#models.set(model.name, facts);
    if (prepareOnly) return;
    for (let round = 0; round < sizes.rounds; round++) {
      for (const measurement of runnable) await this.#takeSample(measurement, bench, round);
    }
  }

  removeModels(): void {
    for (const { model } of this.#models.values()) removeModel(model, this.#options.work);
  }

  #canRun(measurement: Measurement): boolean {
    const { data, signal } = this.#options;
    const missing = missingInputs(measurement.scenario.data, data);
    const reason = missing ?? (signal?.aborted ? 'the time is over' : undefined);
    if (reason === undefined) return true;
    this.#skip(measurement, reason);
    return false;
  }

  #skip(measurement: Measurement, why: string, rounds = this.#options.sizes.rounds): void {
    const what = measurementName(measurement);
    this.#skipped.push({ what, why });
    this.#done += rounds;
    this.#say(`${what} is left out: ${why}`);
  }

  /** A process that was stopped because the time was over did not fail. */
  #endedOr(message: string): string {
    return this.#options.signal?.aborted ? 'the time was over before it ended' : message;
  }

  async #takeSample(measurement: Measurement, bench: ModelBench, round: number): Promise<void> {
    const { signal, onResult } = this.#options;
    const name = measurementName(measurement);
    const work = workOf(measurement, bench, this.#options);
    const known =
      this.#results.get(name) ?? this.#store.read(measurement, specOf(measurement, work, bench, this.#options));
    const kept = known.samples.length > round;
    if (!kept && signal?.aborted) return this.#skip(measurement, 'the time is over', 1);
    let result = known;
    try {
      if (!kept) {
        result = this.#store.add(known, await this.#measure(name, work), this.#provenance.commit);
      }
    } catch (error) {
      // GPU time is short: one broken measurement must not cost the others.
      if (this.#options.gpu === undefined) throw error;
      const why = this.#endedOr((error as Error).message);
      if (!signal?.aborted) this.#failed.push(name);
      return this.#skip(measurement, why, 1);
    }
    this.#results.set(name, result);
    this.#done += 1;
    const sample = result.samples[round]!;
    for (const warning of sample.warnings) this.#warn(`${name}: ${warning}`);
    const what = kept ? 'kept from before' : `${sample.p50Ms.toFixed(2)} ms, ${formatBytes(sample.bytesMoved)} loaded`;
    this.#say(`${this.#done}/${this.#total} ${name}: ${what}`);
    onResult?.(this.result((performance.now() - this.#begun) / 1000));
  }

  async #measure(name: string, work: MeasurementWork): Promise<Sample> {
    const { signal } = this.#options;
    try {
      const input = JSON.stringify(work);
      return JSON.parse(await run(process.execPath, [MEASURING_PROCESS], { input, signal })) as Sample;
    } catch (error) {
      throw new SidaError({ code: 'cannot_run', message: `${name}: ${(error as Error).message}` });
    }
  }

  #warn(message: string): void {
    if (this.#warnings.has(message)) return;
    this.#warnings.add(message);
    this.#say(message);
  }

  result(seconds: number): BenchResult {
    const { command, quick, sizes } = this.#options;
    const measurements = [...this.#results.values()];
    const { comparisons, differing, alone } = judgeExactness(measurements);
    for (const name of alone) this.#warn(`${name} has no resident run to be compared with`);
    return {
      format: 'sida-bench',
      version: 1,
      question: 'What do throughput and latency cost in memory, system by system?',
      command,
      quick,
      rounds: sizes.rounds,
      provenance: this.#provenance,
      models: [...this.#models.values()],
      measurements,
      skipped: this.#skipped,
      ...(this.#options.gpu && { gpu: this.#options.gpu, failed: [...this.#failed] }),
      warnings: [...this.#warnings],
      differing,
      comparisons,
      seconds,
    };
  }
}
