/** Trains one network on the sequences of a stack. Training can resume at its last save. */
import { join } from 'node:path';
import { setImmediate as yieldToEvents } from 'node:timers/promises';
import { hitRanks } from '../../forecast/hit-ranks.js';
import type {
  NativeAddon,
  PredictorShape,
  PredictorTrainer,
  TokenEmbedding,
} from '../../native/addon-types.js';
import { epochBatches, evaluationBatches } from './batches.js';
import { type Corpus, cannotRun } from './corpus.js';
import {
  type Evaluation,
  loadState,
  type Measures,
  meansOf,
  type NetworkState,
  NOTHING,
  saveState,
  sumOf,
} from './network-state.js';
import type { TrainingOptions } from './options.js';
import type { RunIdentity } from './output-directory.js';

/** Steps between two evaluations, apart from the one at the end of each epoch. */
const EVALUATE_EVERY = 250;
/** The learning rate rises from 0 over this many steps, or over this share of a shorter training. */
const WARM_UP_STEPS = 100;
const WARM_UP_SHARE = 1 / 8;
/** Most consecutive steps that may be refused as not finite; a network does not recover after that many. */
const MOST_REFUSED = 20;
export const EVALUATION_LIMITS = { batch: 64, batchTokens: 8192 };
const ADAMW = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.01, clipNorm: 1 };

interface NetworkJob {
  run: RunIdentity;
  stack: number;
  shape: PredictorShape;
  corpus: Corpus;
  /** Sequences of the corpus that have tokens in the stack. */
  train: Int32Array;
  heldOut: Int32Array;
  options: TrainingOptions;
  threads: number;
  embedding: TokenEmbedding;
  /** Directory of the training state. It must exist. */
  directory: string;
}

export interface TrainingEvents {
  signal?: AbortSignal;
  /** Called after each evaluation has been saved, with the fraction of the training that is done. */
  onEvaluation?: (stack: string, evaluation: Evaluation, done: number) => void;
}

/** Returns the final state. Its `best` names the directory of the weights to keep. */
export async function trainNetwork(
  addon: NativeAddon,
  job: NetworkJob,
  events: TrainingEvents,
): Promise<NetworkState> {
  const state = loadState(job.directory, job.run);
  const { options, corpus, embedding, threads } = job;
  const { topK } = corpus.shape;
  const trainer = new addon.PredictorTrainer({
    embedding,
    settings: {
      ...ADAMW,
      ...{ top: options.top, sharpness: options.sharpness, lambda: options.lambda, threads },
      ...{ k: topK, choices: topK, ranks: Int32Array.from(hitRanks(topK)), distillation: 'kl' },
    },
    ...(state.last === null
      ? { shape: job.shape, seed: options.seed }
      : { directory: join(job.directory, state.last) }),
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
  #learningRate = 0;

  constructor(job: NetworkJob, state: NetworkState, trainer: PredictorTrainer, events: TrainingEvents) {
    this.#job = job;
    this.#state = state;
    this.#trainer = trainer;
    this.#events = events;
    this.#lengths = job.train.map((sequence) => job.corpus.length(sequence, job.stack));
    this.#batches = this.#epoch();
  }

  async run(): Promise<void> {
    const state = this.#state;
    const { signal } = this.#events;
    while (state.epoch < this.#job.options.epochs) {
      this.#step();
      // An epoch ends where the next batch is its first.
      if (state.batch === 0 || state.step % EVALUATE_EVERY === 0) await this.#evaluate();
      await yieldToEvents();
      if (!signal?.aborted) continue;
      await saveState(this.#job.directory, state, this.#trainer, false);
      throw signal.reason;
    }
  }

  #epoch(): Int32Array[] {
    const { options } = this.#job;
    return epochBatches(this.#lengths, options, options.seed, this.#state.epoch);
  }

  /** Fraction of the training that is done. */
  get #done(): number {
    const { epoch, batch } = this.#state;
    return (epoch + batch / this.#batches.length) / this.#job.options.epochs;
  }

  /** Rises linearly over the warm-up, then falls to 0 along half a cosine. */
  #nextLearningRate(): number {
    const { epochs, lr } = this.#job.options;
    const steps = epochs * this.#batches.length;
    const warmUp = Math.min(WARM_UP_STEPS, steps * WARM_UP_SHARE);
    const rise = Math.min(1, (this.#state.step + 1) / Math.max(1, warmUp));
    return lr * rise * 0.5 * (1 + Math.cos(Math.PI * this.#done));
  }

  #step(): void {
    const state = this.#state;
    const { corpus, train, stack, options } = this.#job;
    const sequences = this.#batches[state.batch]!.map((place) => train[place]!);
    this.#learningRate = this.#nextLearningRate();
    const batch = corpus.batch(sequences, stack, options.top);
    const report = this.#trainer.step(batch, this.#learningRate);
    state.running = sumOf(state.running, report, corpus.shape.topK);
    state.refused = report.applied ? 0 : state.refused + 1;
    if (state.refused >= MOST_REFUSED) {
      throw cannotRun(
        `Training of the ${this.#name} network went astray: loss or gradient was not finite in ${MOST_REFUSED} steps up to step ${state.step + 1}; a lower --lr than ${options.lr} may help, in another --out`,
      );
    }
    state.step++;
    state.batch++;
    if (state.batch === this.#batches.length) {
      state.epoch++;
      state.batch = 0;
      this.#batches = this.#epoch();
    }
  }

  async #evaluate(): Promise<void> {
    const state = this.#state;
    const heldOut = await this.#measure();
    const train = meansOf(state.running);
    const score = this.#scoreOf(heldOut);
    const best = state.evaluations.every((earlier) => score > this.#scoreOf(earlier.heldOut));
    const now = performance.now();
    state.seconds += (now - this.#clock) / 1000;
    this.#clock = now;
    const evaluation: Evaluation = {
      step: state.step,
      epoch: state.epoch + state.batch / this.#batches.length,
      seconds: state.seconds,
      learningRate: this.#learningRate,
      ...(train && { train }),
      heldOut,
      best,
    };
    state.evaluations.push(evaluation);
    state.running = NOTHING;
    await saveState(this.#job.directory, state, this.#trainer, best);
    this.#events.onEvaluation?.(this.#name, evaluation, this.#done);
  }

  async #measure(): Promise<Measures> {
    const { corpus, heldOut, stack, options } = this.#job;
    let sums = NOTHING;
    const lengths = heldOut.map((sequence) => corpus.length(sequence, stack));
    for (const batch of evaluationBatches(lengths, EVALUATION_LIMITS)) {
      const sequences = batch.map((place) => heldOut[place]!);
      const report = this.#trainer.evaluate(corpus.batch(sequences, stack, options.top));
      sums = sumOf(sums, report, corpus.shape.topK);
      await yieldToEvents();
    }
    const means = meansOf(sums);
    if (means !== undefined) return means;
    throw cannotRun(
      `The ${this.#name} network gives nothing finite on ${heldOut.length} held-out sequences; a lower --lr than ${options.lr} may help`,
    );
  }

  /**
   * The score that selects the best weights: recall@k. If the router chooses a single expert, it is the mean over all
   * ranks, which is less noisy than the first rank alone.
   */
  #scoreOf({ hits }: Measures): number {
    const { topK } = this.#job.corpus.shape;
    return topK > 1 ? hits[0]! : hits.reduce((sum, rate) => sum + rate, 0) / hits.length;
  }

  get #name(): string {
    return this.#job.corpus.shape.stacks[this.#job.stack]!.name;
  }
}
