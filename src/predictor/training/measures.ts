/** Sums of training reports, and the means computed from them. */
import type { TrainingReport } from '../../native/addon-types.js';

/** Plain numbers, so that they survive JSON exactly. */
export interface MeasureSums {
  tokens: number;
  loss: number;
  distillation: number;
  crossEntropy: number;
  gradientNorm: number;
  steps: number;
  layers: { tokens: number; hits: number[] }[];
}

export interface Measures {
  /** Per token and layer: distillation + λ · cross-entropy. */
  loss: number;
  distillation: number;
  crossEntropy: number;
  /**
   * Share of the routers' choices among the first predicted experts, for each rank of hitRanks(); mean over layers.
   */
  hits: number[];
  layers: { tokens: number; hits: number[] }[];
}

export function emptySums(): MeasureSums {
  return { tokens: 0, loss: 0, distillation: 0, crossEntropy: 0, gradientNorm: 0, steps: 0, layers: [] };
}

/** Adds a report, unless its loss is not finite. */
export function addReport(sums: MeasureSums, report: TrainingReport): void {
  const tokens = report.layers[0]?.tokens ?? 0;
  if (tokens === 0 || !Number.isFinite(report.loss)) return;
  sums.tokens += tokens;
  sums.loss += report.loss * tokens;
  sums.distillation += report.distillation * tokens;
  sums.crossEntropy += report.crossEntropy * tokens;
  sums.gradientNorm += report.gradientNorm;
  sums.steps += 1;
  report.layers.forEach((layer, i) => {
    sums.layers[i] ??= { tokens: 0, hits: layer.hits.map(() => 0) };
    const into = sums.layers[i]!;
    into.tokens += layer.tokens;
    layer.hits.forEach((hits, rank) => {
      into.hits[rank]! += hits;
    });
  });
}

/** Returns the means, or undefined if nothing was added. */
export function meansOf(sums: MeasureSums, topK: number): Measures | undefined {
  const { tokens } = sums;
  if (tokens === 0) return undefined;
  const layers = sums.layers.map((layer) => ({
    tokens: layer.tokens,
    hits: layer.hits.map((hits) => hits / (layer.tokens * topK)),
  }));
  const mean = (_: number, rank: number) =>
    layers.reduce((sum, layer) => sum + layer.hits[rank]!, 0) / layers.length;
  return {
    loss: sums.loss / tokens,
    distillation: sums.distillation / tokens,
    crossEntropy: sums.crossEntropy / tokens,
    hits: layers[0]!.hits.map(mean),
    layers,
  };
}

/**
 * The score that selects the best weights: recall@k. If the router chooses a single expert, it is the mean over all
 * ranks, which is less noisy than the first rank alone.
 */
export function scoreOf({ hits }: Measures, topK: number): number {
  return topK > 1 ? hits[0]! : hits.reduce((sum, rate) => sum + rate, 0) / hits.length;
}
