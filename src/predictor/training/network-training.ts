/**
 * Trains one network on the sequences of a stack. Training can resume at any step and stops early by held-out scores.
 */
import { join } from 'node:path';
import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { SidaError } from '../../errors.js';
import type {
  NativeAddon,
  PredictorShape,
  PredictorTrainer,
  TokenEmbedding,
  TrainerSettings,
} from '../../native/addon-types.js';
import type { StackName } from '../hash-function.js';
import { hitRanks } from '../hit-ranks.js';
import { epochBatches, evaluationBatches } from './batches.js';
import type { Corpus } from './corpus.js';
import type { Ending } from './manifest.js';
import { addReport, emptySums, type Measures, meansOf, scoreOf } from './measures.js';
import { type Evaluation, loadState, type NetworkState, saveState } from './network-state.js';
import type { TrainingOptions } from './options.js';
import { endsAtPlateau, fallsOf, reachesPlateau } from './plateau.js';
import { learningRateAt } from './schedule.js';

const SAVE_SECONDS = 60;
/** Most consecutive steps that may be refused as not finite; a network does not recover after that many. */
const MOST_REFUSED = 20;
const EVALUATION_LIMITS = { batch: 64, batchTokens: 8192 };

/** Sequences of a corpus, by number. */
export interface SequenceSet {
  corpus: Corpus;
  sequences: Int32Array;
}

interface NetworkJob {
  stack: number;
  /** Name of the stack. */
  name: StackName;
  shape: PredictorShape;
  train: SequenceSet;
  heldOut: SequenceSet;
  options: TrainingOptions;
  /** Experts per token in each batch: T, and at least k. */
  top: number;
  /** Experts that the model's routers choose for a token. */
  topK: number;
  threads: number;
  /** 0 means no limit. */
  maxSeconds: number;
  embedding: TokenEmbedding;
  /** Directory of the training state. It must exist. */
  directory: string;
}

export interface TrainingProgress {
  network: StackName;
  step: number;
  epoch: number;
  /** Fraction of the longest possible training that is done, 0 to 1. */
  done: number;
  /** Means since the last evaluation. */
  train: Measures | undefined;
  /** Result of the last evaluation. */
  heldOut: Measures | undefined;
}

export interface TrainingEvents {
  signal?: AbortSignal;
  onProgress?: (progress: TrainingProgress) => void;
  /** Called after each evaluation has been saved. `all` includes the network's earlier evaluations. */
  onEvaluation?: (evaluation: Evaluation, all: readonly Evaluation[]) => void | Promise<void>;
}

function settingsOf({ options, threads, top, topK }: NetworkJob): TrainerSettings {
  return {
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    weightDecay: options.weightDecay,
    top: Math.min(options.top, top),
    sharpness: options.sharpness,
    lambda: options.lambda,
    k: options.k,
    choices: topK,
    ranks: Int32Array.from(hitRanks(topK)),
    distillation: options.distillation,
    clipNorm: options.clipNorm,
    threads,
  };
}

function lengthsOf({ corpus, sequences }: SequenceSet, stack: number): Int32Array {
  return sequences.map((sequence) => corpus.length(sequence, stack));
}

async function measure(trainer: PredictorTrainer, set: SequenceSet, job: NetworkJob): Promise<Measures> {
  const sums = emptySums();
  for (const batch of evaluationBatches(lengthsOf(set, job.stack), EVALUATION_LIMITS)) {
    const sequences = batch.map((place) => set.sequences[place]!);
    addReport(sums, trainer.evaluate(set.corpus.batch(sequences, job.stack, job.top)));
    await yieldToEvents();
  }
  const means = meansOf(sums, job.topK);
  if (means !== undefined) return means;
  throw new SidaError({
    code: 'cannot_run',
    message: `The ${job.name} network gives nothing finite on ${set.sequences.length} held-out sequences; a lower --lr than ${job.options.lr} may help`,
  });
}

/** Returns the final state. Its `best` names the directory of the weights to keep. */
export async function trainNetwork(
  addon: NativeAddon,
  job: NetworkJob,
  events: TrainingEvents = {},
): Promise<NetworkState> {
  const state = await loadState(job.directory);
  if (state.ending !== null) return state;
  const source =
    state.last === null
      ? { shape: job.shape, seed: job.options.seed }
      : { directory: join(job.directory, state.last) };
  const trainer = new addon.PredictorTrainer({
    embedding: job.embedding,
    settings: settingsOf(job),
    ...source,
  });
  try {
    await new NetworkTraining(job, state, trainer, events).run();
    return state;
  } finally {
    trainer.close();
  }
}

class NetworkTraining {
  readonly #job: NetworkJob;
  readonly #state: NetworkState;
  readonly #trainer: PredictorTrainer;
  readonly #events: TrainingEvents;
  readonly #lengths: Int32Array;
  #batches: Int32Array[];
  #clock = performance.now();
  #savedAt: number;
  #learningRate = 0;

  constructor(job: NetworkJob, state: NetworkState, trainer: PredictorTrainer, events: TrainingEvents) {
    this.#job = job;
    this.#state = state;
    this.#trainer = trainer;
    this.#events = events;
    this.#lengths = lengthsOf(job.train, job.stack);
    this.#batches = this.#epoch();
    this.#savedAt = state.seconds;
  }

  async run(): Promise<void> {
    for (;;) {
      const ending = this.#ending();
      if (ending !== null) return this.#end(ending);
      this.#step();
      const { step, batch, seconds } = this.#state;
      // An epoch ends where the next batch is its first.
      if (batch === 0 || step % this.#job.options.evaluateEvery === 0) await this.#evaluate();
      else if (seconds - this.#savedAt > SAVE_SECONDS) await this.#save(false);
      this.#report();
      await yieldToEvents();
      if (this.#events.signal?.aborted) {
        await this.#save(false);
        throw this.#events.signal.reason;
      }
    }
  }

  #epoch(): Int32Array[] {
    const { options } = this.#job;
    return epochBatches(this.#lengths, options, options.seed, this.#state.epoch);
  }

  #done(): number {
    const { epoch, batch, seconds } = this.#state;
    const { options, maxSeconds } = this.#job;
    const byEpochs = (epoch + batch / this.#batches.length) / options.epochs;
    return Math.min(1, maxSeconds > 0 ? Math.max(byEpochs, seconds / maxSeconds) : byEpochs);
  }

  #ending(): Ending | null {
    const { epoch, seconds, evaluations } = this.#state;
    const { options, maxSeconds } = this.#job;
    if (epoch >= options.epochs) return 'epochs';
    if (maxSeconds > 0 && seconds >= maxSeconds) return 'minutes';
    if (endsAtPlateau(options, evaluations)) return 'plateau';
    const bestAt = evaluations.findLastIndex(({ best }) => best);
    const waited = evaluations.length - 1 - bestAt;
    return options.patience > 0 && waited >= options.patience ? 'patience' : null;
  }

  #step(): void {
    const state = this.#state;
    const { train, stack, name, options, top } = this.#job;
    const sequences = this.#batches[state.batch]!.map((place) => train.sequences[place]!);
    this.#learningRate = learningRateAt(options, {
      step: state.step,
      progress: this.#done(),
      falls: fallsOf(state.evaluations),
    });
    const report = this.#trainer.step(train.corpus.batch(sequences, stack, top), this.#learningRate);
    addReport(state.running, report);
    state.refused = report.applied ? 0 : state.refused + 1;
    if (state.refused >= MOST_REFUSED) {
      throw new SidaError({
        code: 'cannot_run',
        message: `Training of the ${name} network went astray: loss or gradient was not finite in ${MOST_REFUSED} steps up to step ${state.step + 1}; a lower --lr than ${options.lr} or a --clip-norm may help, in another --out`,
      });
    }
    state.step++;
    state.batch++;
    if (state.batch === this.#batches.length) {
      state.epoch++;
      state.batch = 0;
      this.#batches = this.#epoch();
    }
    this.#tick();
  }

  async #evaluate(): Promise<void> {
    const state = this.#state;
    const { name, heldOut, topK } = this.#job;
    const measured = await measure(this.#trainer, heldOut, this.#job);
    const train = meansOf(state.running, topK);
    const score = scoreOf(measured, topK);
    const best = state.evaluations.every(({ heldOut: earlier }) => score > scoreOf(earlier, topK));
    this.#tick();
    const evaluation: Evaluation = {
      network: name,
      step: state.step,
      epoch: state.epoch + state.batch / this.#batches.length,
      seconds: state.seconds,
      learningRate: this.#learningRate,
      ...(train && { train: { ...train, gradientNorm: state.running.gradientNorm / state.running.steps } }),
      heldOut: measured,
      best,
    };
    if (reachesPlateau(this.#job.options, [...state.evaluations, evaluation])) evaluation.plateau = true;
    state.evaluations.push(evaluation);
    state.running = emptySums();
    await this.#save(best);
    await this.#events.onEvaluation?.(evaluation, state.evaluations);
  }

  async #end(ending: Ending): Promise<void> {
    const { evaluations, step } = this.#state;
    if (evaluations.at(-1)?.step !== step) await this.#evaluate();
    this.#state.ending = ending;
    await this.#save(false);
  }

  async #save(isBest: boolean): Promise<void> {
    await saveState(this.#job.directory, this.#state, this.#trainer, isBest);
    this.#savedAt = this.#state.seconds;
  }

  #tick(): void {
    const now = performance.now();
    this.#state.seconds += (now - this.#clock) / 1000;
    this.#clock = now;
  }

  #report(): void {
    const { step, epoch, batch, running, evaluations } = this.#state;
    this.#events.onProgress?.({
      network: this.#job.name,
      step,
      epoch: epoch + batch / this.#batches.length,
      done: this.#done(),
      train: meansOf(running, this.#job.topK),
      heldOut: evaluations.at(-1)?.heldOut,
    });
  }
}
