/** Runs cells: model by model, round by round over all systems of the model, so that a slow minute falls on all alike. */
import { basename } from 'node:path';
import { readTasks } from '../engine/model-directory.js';
import { SidaError } from '../errors.js';
import { hottest } from '../evaluation/replay-rules.js';
import { loadAddon } from '../native/addon.js';
import { openTrace } from '../replay/open-trace.js';
import { CellStore } from './cell-store.js';
import type { CellWork } from './cell-work.js';
import { dataFacts } from './data-facts.js';
import { judgeExactness } from './exactness.js';
import { type BenchInputs, missingInputs, readBenchInputs } from './inputs.js';
import { type DiskRates, diskRates } from './link-rates.js';
import { LINKS } from './links.js';
import { type BenchModel, modelNamed } from './models.js';
import { missingPeer } from './peer-driver.js';
import {
  type Maker,
  MINI_DIRECTORY,
  type PreparedModel,
  predictorOf,
  prepareModel,
  removeModel,
  run,
  shortHash,
  traceOf,
} from './prepare.js';
import { provenance } from './provenance.js';
import type { BenchResult, CellResult, CellSpec, ModelFacts, Sample, Skipped } from './result.js';
import { type Cell, cellName, type DataName } from './scenarios.js';
import { type Sizes, warmUpOf } from './sizes.js';
import { systemFlags, systemNamed } from './systems.js';

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

/** All that the cells of a model share. */
interface Bench {
  model: BenchModel;
  prepared: PreparedModel;
  inputs: Map<DataName, BenchInputs>;
  traces: Map<DataName, string>;
  hot: Map<DataName, number[]>;
  predictor: string | undefined;
  facts: ModelFacts;
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
    let bench: Bench;
    try {
      bench = await this.#prepare(model, runnable);
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

  async #prepare(model: BenchModel, cells: readonly Cell[]): Promise<Bench> {
    const { sizes, data, threads } = this.#options;
    const prepared = await prepareModel(model, this.#maker);
    const tasks = await readTasks(MINI_DIRECTORY);
    const needs = new Set(cells.flatMap(({ system }) => systemNamed(system).needs));
    const training: string[] = [];
    const { maxBatchTokens } = model;
    const sets = [...new Set(cells.map(({ scenario }) => scenario.data))];
    const plan = loadAddon().planMemory({ pack: prepared.pack }, { maxBatchTokens, kvTokens: 1.5 * maxBatchTokens, threads }); // biome-ignore format: one line
    const facts: ModelFacts = {
      model,
      bytes: { dense: plan.dense, routers: plan.routers, experts: plan.expertBytes, expert: plan.slot },
      disk: diskRates(prepared.pack, plan.slot),
      data: {},
    };
    const bench: Bench = {
      model,
      prepared,
      inputs: new Map(),
      traces: new Map(),
      hot: new Map(),
      predictor: undefined,
      facts,
    };
    for (const name of sets) {
      const inputs = await readBenchInputs(name, {
        directory: data,
        task: tasks[name]!,
        sentences: sizes.sentences(model, name),
        trainingSentences: sizes.training(model),
      });
      for (const warning of inputs.warnings) this.#warn(warning);
      bench.inputs.set(name, inputs);
      // Also where no system replays it: it tells what inputs need.
      const trace = await traceOf(prepared, inputs, inputs.texts, maxBatchTokens, this.#maker);
      bench.traces.set(name, trace);
      const expertBytes = plan.slot;
      facts.data[name] = await dataFacts(await openTrace(trace, { expertBytes }), inputs.source);
      const trains = needs.has('predictor') && model.weights === 'random';
      if (!trains && !needs.has('hot-trace')) continue;
      const other = await traceOf(prepared, inputs, inputs.training, maxBatchTokens, this.#maker);
      training.push(other);
      const { batches } = await openTrace(other, { expertBytes });
      bench.hot.set(name, hottest(batches, plan.experts));
    }
    if (needs.has('predictor')) {
      bench.predictor = await predictorOf(model, prepared, training, sizes.trainingMinutes, this.#maker);
    }
    this.#models.push(facts);
    return bench;
  }

  async #runCell(cell: Cell, bench: Bench, round: number): Promise<void> {
    const name = cellName(cell);
    const work = this.#workOf(cell, bench);
    const known = this.#results.get(name) ?? this.#store.read(cell, this.#specOf(cell, work, bench));
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

  #workOf({ scenario, system }: Cell, bench: Bench): CellWork {
    const { threads, seed, sizes } = this.#options;
    const { model, prepared, inputs, traces, hot, predictor } = bench;
    const { texts, labels, right } = inputs.get(scenario.data)!;
    const { driver } = systemNamed(system);
    const paths = { predictor: predictor ?? 'none', trace: traces.get(scenario.data)! };
    const { arrivals } = scenario;
    return {
      system,
      flags: {
        model: prepared.pack,
        memoryBudget: `${scenario.share * 100}%`,
        lookahead: String(scenario.lookahead),
        threads: String(threads),
        maxBatchTokens: String(model.maxBatchTokens),
        ...LINKS[scenario.link].flags,
        ...(driver === 'threads' && systemFlags(system, paths)),
      },
      ...prepared,
      texts,
      labels,
      right,
      warmUp: warmUpOf(scenario, texts.length),
      batch: scenario.batch,
      ...(system === 'static-hot' && { hot: hot.get(scenario.data)! }),
      ...(arrivals !== undefined && {
        arrivals: {
          perSecond: arrivals,
          requests: Math.max(20, Math.ceil(arrivals * sizes.restSeconds)),
          seed,
        },
      }),
    };
  }

  #specOf(
    { scenario }: Cell,
    { texts, warmUp, flags, fingerprint, arrivals }: CellWork,
    bench: Bench,
  ): CellSpec {
    const { threads, seed } = this.#options;
    return {
      sentences: texts.length,
      warmUp,
      lookahead: Number(flags.lookahead),
      threads,
      seed,
      inputs: shortHash(
        fingerprint,
        basename(flags.predictor ?? ''),
        bench.inputs.get(scenario.data)!.template,
        ...texts,
      ),
      ...(arrivals !== undefined && { requests: arrivals.requests }),
    };
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
