/** How much of each scenario is measured. */
import type { BenchModel } from './models.js';
import type { DataName, Scenario } from './scenarios.js';

export interface Sizes {
  rounds: number;
  /** Minutes that the predictor of a random-weight model may train. */
  trainingMinutes: number;
  /** Texts to learn from. */
  training(model: BenchModel): number;
  /** Measured texts of a task. */
  sentences(model: BenchModel, data: DataName): number;
  /** Seconds of requests over REST. */
  restSeconds: number;
  /** Inputs of a study. */
  study: number;
}

/** Inputs of the long task cost about ten times those of the short one. */
const SHARE_OF: Record<DataName, number> = { sst2: 1, mrpc: 0.75, multirc: 0.25 };

export const QUICK_SIZES: Sizes = {
  rounds: 2,
  trainingMinutes: 0.3,
  training: ({ weights }) => (weights === 'trained' ? 200 : 120),
  sentences: ({ weights }) => (weights === 'trained' ? 64 : 16),
  restSeconds: 3,
  study: 48,
};

export const FULL_SIZES: Sizes = {
  rounds: 3,
  trainingMinutes: 2,
  training: ({ weights }) => (weights === 'trained' ? 1000 : 300),
  sentences: ({ weights, shape }, data) =>
    Math.ceil(SHARE_OF[data] * (weights === 'trained' ? 200 : shape.experts <= 8 ? 32 : 12)),
  restSeconds: 20,
  study: 400,
};

/** Sentences before the clock runs: on the simulated link all of them, which brings their experts to host memory. */
export function warmUpOf({ link, arrivals }: Scenario, sentences: number): number {
  if (arrivals !== undefined) return Math.min(sentences, 16);
  return link === 'disk' ? Math.min(sentences, Math.max(4, sentences >> 2)) : sentences;
}
