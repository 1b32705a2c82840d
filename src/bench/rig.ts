/** Runs cells: model by model, round by round over all systems of the model, so that a slow minute falls on all alike. */
import { SidaError } from '../errors.js';
import { CellStore } from './cell-store.js';
import type { CellWork } from './cell-work.js';
import { judgeExactness } from './exactness.js';
import { availableHostBytes, type Gpu, tooLarge } from './gpu.js';
import { missingOnGpu } from './gpu-peer-driver.js';
import { missingInputs } from './inputs.js';
import { type DiskRates, diskRates } from './link-rates.js';
import { type ModelBench, prepareBench } from './model-bench.js';
import { type BenchModel, modelNamed } from './models.js';
import { missingPeer } from './peer-driver.js';
import { type Maker, removeModel, run } from './prepare.js';
import { provenance } from './provenance.js';
import type { BenchResult, CellResult, ModelFacts, Sample, Skipped } from './result.js';
import { type Cell, cellName } from './scenarios.js';
import type { Sizes } from './sizes.js';
import { systemNamed } from './systems.js';
import type { TimeLimit } from './time-limit.js';
import { specOf, workOf } from './work-of-cell.js';

const CELL_PROCESS = new URL('cell-process.js', import.meta.url).pathname;

export interface RigOptions {
  /** As the user gave it. */
  command: string;
  quick: boolean;
  cells: readonly Cell[];
  /** Their order, where it counts: all of one part is measured before the next. */
  stages?: readonly (readonly Cell[])[];
  sizes: Sizes;
  /** Results. */
  out: string;
  /** Packs, traces, predictors. */
  work: string;
  /** Texts of the tasks. */
  data: string | undefined;
  threads: number;
  seed: number;
  fresh: boolean;
  /** Packs of random models stay. */
  keep: boolean;
  /** Of cells whose device is cuda. */
  gpu?: Gpu;
  limit?: TimeLimit;
  /** Packs, traces and predictors are made and nothing is measured. */
  prepareOnly?: boolean;
  /** Told after each sample what there is so far. */
  onResult?: (result: BenchResult) => void;
}

export interface RigProgress {
  step(what: string): void;
  warn(message: string): void;
  /** A sample was taken, or was there already. */
  sample(done: number, total: number, name: string, sample: Sample, kept: boolean): void;
}

export async function runRig(options: RigOptions, progress: RigProgress): Promise<BenchResult> {
  const begin = performance.now();
  const rig = new Rig(options, progress);
  for (const cells of options.stages ?? [options.cells]) {
    const models = new Set(cells.map(({ scenario }) => scenario.model));
    for (const name of models) {
      const own = cells.filter(({ scenario }) => scenario.model === name);
      await rig.runModel(modelNamed(name), own);
    }
  }
  if (!options.keep) rig.removeModels();
  return rig.result((performance.now() - begin) / 1000);
}

/** A busy moment makes a link look slow: what it can do is the most that was seen. */
function fastest(a: DiskRates, b: DiskRates): DiskRates {
  return { sequential: Math.max(a.sequential, b.sequential), experts: Math.max(a.experts, b.experts) };
}

class Rig {
  readonly #options: RigOptions;
  readonly #progress: RigProgress;
  readonly #store: CellStore;
  readonly #maker: Maker;
  readonly #provenance = provenance();
  readonly #models = new Map<string, ModelFacts>();
  readonly #skipped: Skipped[] = [];
  readonly #warnings = new Set<string>();
  readonly #results = new Map<string, CellResult>();
  readonly #total: number;
  /** Cells whose process failed. */
  readonly #failed: string[] = [];
  readonly #begun = performance.now();
  readonly #peers = new Map<string, string | undefined>();
  #done = 0;

  constructor(options: RigOptions, progress: RigProgress) {
    this.#options = options;
    this.#progress = progress;
    this.#store = new CellStore(options.out);
    if (options.fresh) this.#store.clear();
    const { work, threads, seed, gpu, limit } = options;
    this.#maker = {
      ...{ work, threads, seed, device: gpu && 'cuda', signal: limit?.signal },
      onStep: (what) => progress.step(what),
    };
    this.#total = options.cells.length * options.sizes.rounds;
  }

  async runModel(model: BenchModel, cells: readonly Cell[]): Promise<void> {
    const { sizes, prepareOnly } = this.#options;
    const runnable = cells.filter((cell) => this.#canRun(cell, model));
    if (runnable.length === 0) return;
    let bench: ModelBench;
    const begun = performance.now();
    try {
      bench = await prepareBench(model, runnable, this.#options, this.#maker, (message) =>
        this.#warn(message),
      );
    } catch (error) {
      // One model that cannot be made must not take the others' results along.
      if (!(error instanceof SidaError)) throw error;
      for (const cell of runnable) this.#skip(cell, this.#endedOr(error.message));
      return;
    }
    this.#progress.step(`${model.name}: prepared in ${((performance.now() - begun) / 1000).toFixed(1)} s`);
    const { facts, prepared } = bench;
    const earlier = this.#models.get(model.name);
    if (earlier !== undefined) facts.data = { ...earlier.data, ...facts.data };
    this.#models.set(model.name, facts);
    if (prepareOnly) return;
    for (let round = 0; round < sizes.rounds; round++) {
      if (this.#options.gpu === undefined) {
        facts.disk = fastest(facts.disk, diskRates(prepared.pack, facts.bytes.expert));
      }
      for (const cell of runnable) await this.#runCell(cell, bench, round);
    }
  }

  removeModels(): void {
    for (const { model } of this.#models.values()) removeModel(model, this.#options.work);
  }

  #canRun(cell: Cell, model: BenchModel): boolean {
    const { data, gpu, limit } = this.#options;
    const reason =
      missingInputs(cell.scenario.data, data) ??
      (cell.scenario.device === 'cuda' && gpu !== undefined
        ? tooLarge(cell, model, gpu.totalBytes, availableHostBytes())
        : undefined) ??
      this.#peerReason(cell) ??
      (limit?.over ? 'the time is over' : undefined);
    if (reason === undefined) return true;
    this.#skip(cell, reason);
    return false;
  }

  /** Asked once: Python takes a while to say. */
  #peerReason({ system }: Cell): string | undefined {
    const { driver } = systemNamed(system);
    if (driver !== 'peer' && driver !== 'gpu-peer') return undefined;
    if (!this.#peers.has(system)) {
      this.#peers.set(system, driver === 'peer' ? missingPeer() : missingOnGpu(system));
    }
    return this.#peers.get(system);
  }

  #skip(cell: Cell, why: string, rounds = this.#options.sizes.rounds): void {
    const what = cellName(cell);
    this.#skipped.push({ what, why });
    this.#done += rounds;
    this.#progress.warn(`${what} is left out: ${why}`);
  }

  /** What was ended because the time was over did not fail. */
  #endedOr(message: string): string {
    return this.#options.limit?.over ? 'the time was over before it ended' : message;
  }

  async #runCell(cell: Cell, bench: ModelBench, round: number): Promise<void> {
    const { limit, onResult } = this.#options;
    const name = cellName(cell);
    const work = workOf(cell, bench, this.#options);
    const known = this.#results.get(name) ?? this.#store.read(cell, specOf(cell, work, bench, this.#options));
    const kept = known.samples.length > round;
    const { model, data, batch } = cell.scenario;
    const kinds = [`${model}/${data}/${cell.system}/${batch}`, `${model}/${cell.system}`, model];
    const refusal = kept ? undefined : limit?.refusal(...kinds);
    if (refusal !== undefined) return this.#skip(cell, refusal, 1);
    const begun = performance.now();
    let result = known;
    try {
      if (!kept) {
        result = this.#store.add(known, await this.#measure(name, work), this.#provenance.commit);
      }
    } catch (error) {
      // A minute on a lent GPU that finds one cell broken is still worth the others.
      if (this.#options.gpu === undefined) throw error;
      const why = this.#endedOr((error as Error).message);
      if (!limit?.over) this.#failed.push(name);
      return this.#skip(cell, why, 1);
    }
    if (!kept) for (const kind of kinds) limit?.took(kind, (performance.now() - begun) / 1000);
    this.#results.set(name, result);
    this.#done += 1;
    const sample = result.samples[round]!;
    for (const warning of sample.warnings) this.#warn(`${name}: ${warning}`);
    this.#progress.sample(this.#done, this.#total, name, sample, kept);
    onResult?.(this.result((performance.now() - this.#begun) / 1000));
  }

  async #measure(name: string, work: CellWork): Promise<Sample> {
    const input = JSON.stringify(work);
    const { limit } = this.#options;
    try {
      return JSON.parse(
        await run(process.execPath, [CELL_PROCESS], { input, signal: limit?.signal }),
      ) as Sample;
    } catch (error) {
      throw new SidaError({ code: 'cannot_run', message: `${name}: ${(error as Error).message}` });
    }
  }

  #warn(message: string): void {
    if (this.#warnings.has(message)) return;
    this.#warnings.add(message);
    this.#progress.warn(message);
  }

  result(seconds: number): BenchResult {
    const { command, quick, sizes, seed } = this.#options;
    const cells = [...this.#results.values()];
    const { comparisons, differing, alone } = judgeExactness(cells);
    for (const name of alone) this.#warn(`${name} has no resident run to be compared with`);
    return {
      format: 'sida-bench',
      version: 1,
      question: 'What do throughput and latency cost in memory, system by system?',
      command,
      quick,
      rounds: sizes.rounds,
      seed,
      provenance: this.#provenance,
      models: [...this.#models.values()],
      cells,
      skipped: this.#skipped,
      ...(this.#options.gpu && { gpu: this.#options.gpu, failed: [...this.#failed] }),
      warnings: [...this.#warnings],
      differing,
      comparisons,
      seconds,
    };
  }
}
