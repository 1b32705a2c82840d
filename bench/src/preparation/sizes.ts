/** How much of each scenario is measured. */

import type { BenchModel } from '../scenarios/models.js';
import type { DataName, Measurement } from '../scenarios/scenarios.js';
import type { BenchInputs } from './inputs.js';

export interface Sizes {
  rounds: number;
  /** Epochs that the predictor of a random-weight model trains. */
  trainingEpochs: number;
  /** Texts to learn from. */
  training(model: BenchModel): number;
  /** Measured texts of a task. */
  sentences(model: BenchModel, data: DataName): number;
  /** Inputs of a study. */
  study: number;
}

/** Fewer inputs say little: what one needs differs too much from the next. A pass of 256 experts takes longest. */
const leastInputs = ({ shape }: BenchModel) => (shape.experts >= 256 ? 20 : 50);

/** Inputs of the long task cost about ten times those of the short one. */
const SHARE_OF: Record<DataName, number> = { sst2: 1, mrpc: 0.75, multirc: 0.25, words: 1 };

export const QUICK_SIZES: Sizes = {
  rounds: 2,
  trainingEpochs: 2,
  training: ({ weights }) => (weights === 'trained' ? 200 : 120),
  sentences: ({ weights }) => (weights === 'trained' ? 64 : 16),
  study: 48,
};

export const FULL_SIZES: Sizes = {
  rounds: 3,
  trainingEpochs: 10,
  training: ({ weights }) => (weights === 'trained' ? 1000 : 300),
  sentences: (model, data) => {
    // The transfers of a padded model cost what a real one's do.
    const most = model.weights === 'random' ? 0 : model.expertBytes === undefined ? 200 : 100;
    return Math.max(leastInputs(model), Math.ceil(most * SHARE_OF[data]));
  },
  study: 400,
};

/** GPU time is short, and a pass takes milliseconds: few rounds. */
export const CUDA_SIZES: Sizes = {
  rounds: 1,
  trainingEpochs: 1,
  training: ({ weights }) => (weights === 'trained' ? 200 : 160),
  sentences: (_, data) => ({ sst2: 192, mrpc: 128, multirc: 64, words: 192 })[data],
  study: 0,
};

/**
 * Texts that run before the clock starts, so that first loads are not measured: other texts, the same for all systems.
 * If host memory holds the experts, the measured texts run before them, which loads their experts there.
 */
export function warmUpOf(
  { weights }: BenchModel,
  { scenario: { link } }: Measurement,
  { texts, training }: Pick<BenchInputs, 'texts' | 'training'>,
): readonly string[] {
  const count = weights === 'trained' ? texts.length >> 2 : texts.length >> 1;
  const others = training.slice(0, Math.max(4, count));
  return link === 'disk' ? others : [...texts, ...others];
}

/** The measured texts, and behind them those that only warm up: true tables are of both. */
export function tabledTexts(
  model: BenchModel,
  replayed: readonly Measurement[],
  inputs: Pick<BenchInputs, 'texts' | 'training'>,
): string[] {
  const others = new Set(replayed.flatMap((measurement) => warmUpOf(model, measurement, inputs)));
  for (const text of inputs.texts) others.delete(text);
  return [...inputs.texts, ...others];
}
