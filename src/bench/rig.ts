/** Runs cells: model by model, round by round over all systems of the model, so that a slow minute falls on all alike. */
import { SidaError } from '../errors.js';
import { CellStore } from './cell-store.js';
import type { CellWork } from './cell-work.js';
import { judgeExactness } from './exactness.js';
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
import { specOf, workOf } from './work-of-cell.js';

const CELL_PROCESS = new URL('cell-process.js', import.meta.url).pathname;

export interface RigOptions {
  /** As the user gave it. */
  command: string;
  quick: boolean;
  cells: readonly Cell[];
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
  const models = [...new Set(options.cells.map(({ scenario }) => scenario.model))];
  for (const name of models) await rig.runModel(modelNamed(name));
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
  readonly #models: ModelFacts[] = [];
  readonly #skipped: Skipped[] = [];
  readonly #warnings = new Set<string>();
  readonly #results = new Map<string, CellResult>();
  readonly #total: number;
  #done = 0;
  #peerAsked = false;
  #peerMissing: string | undefined;

  constructor(options: RigOptions, progress: RigProgress) {
    this.#options = options;
    this.#progress = progress;
    this.#store = new CellStore(options.out);
    if (options.fresh) this.#store.clear();
    const { work, threads, seed } = options;
    this.#maker = { work, threads, seed, onStep: (what) => progress.step(what) };
    this.#total = options.cells.length * options.sizes.rounds;
  }

  async runModel(model: BenchModel): Promise<void> {
    const { cells, sizes, keep, work } = this.#options;
    const own = cells.filter(({ scenario }) => scenario.model === model.name);
    const runnable = own.filter((cell) => this.#canRun(cell));
    if (runnable.length === 0) return;
    let bench: ModelBench;
    try {
      bench = await prepareBench(model, runnable, this.#options, this.#maker, (message) =>
        this.#warn(message),
      );
      this.#models.push(bench.facts);
    } catch (error) {
      // One model that cannot be made must not take the others' results along.
      if (!(error instanceof SidaError)) throw error;
      for (const cell of runnable) this.#skip(cellName(cell), error.message);
      return;
    }
    for (let round = 0; round < sizes.rounds; round++) {
      const { facts, prepared } = bench;
      facts.disk = fastest(facts.disk, diskRates(prepared.pack, facts.bytes.expert));
      for (const cell of runnable) await this.#runCell(cell, bench, round);
    }
    if (!keep) removeModel(model, work);
  }

  #canRun(cell: Cell): boolean {
    const { data } = this.#options;
    const reason =
      missingInputs(cell.scenario.data, data) ??
      (systemNamed(cell.system).driver === 'peer' ? this.#peerReason() : undefined);
    if (reason === undefined) return true;
    this.#skip(cellName(cell), reason);
    return false;
  }

  /** Asked once: Python takes a while to say. */
  #peerReason(): string | undefined {
    if (!this.#peerAsked) this.#peerMissing = missingPeer();
    this.#peerAsked = true;
    return this.#peerMissing;
  }

  #skip(what: string, why: string): void {
    this.#skipped.push({ what, why });
    this.#done += this.#options.sizes.rounds;
    this.#progress.warn(`${what} is left out: ${why}`);
  }

  async #runCell(cell: Cell, bench: ModelBench, round: number): Promise<void> {
    const name = cellName(cell);
    const work = workOf(cell, bench, this.#options);
    const known = this.#results.get(name) ?? this.#store.read(cell, specOf(cell, work, bench, this.#options));
    const kept = known.samples.length > round;
    const result = kept
      ? known
      : this.#store.add(known, await this.#measure(name, work), this.#provenance.commit);
    this.#results.set(name, result);
    this.#done += 1;
    const sample = result.samples[round]!;
    for (const warning of sample.warnings) this.#warn(`${name}: ${warning}`);
    this.#progress.sample(this.#done, this.#total, name, sample, kept);
  }

  async #measure(name: string, work: CellWork): Promise<Sample> {
    try {
      return JSON.parse(await run(process.execPath, [CELL_PROCESS], JSON.stringify(work))) as Sample;
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
      models: this.#models,
      cells,
      skipped: this.#skipped,
      warnings: [...this.#warnings],
      differing,
      comparisons,
      seconds,
    };
  }
}
