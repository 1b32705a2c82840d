/** Sums of training reports, and the means that people read. */
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
   * Share of the routers' choices that are among the best of the prediction, for each of hitRanks(); mean over
   * layers.
   */
  hits: number[];
  layers: { tokens: number; hits: number[] }[];
}

export function emptySums(): MeasureSums {
  return { tokens: 0, loss: 0, distillation: 0, crossEntropy: 0, gradientNorm: 0, steps: 0, layers: [] };
}

/** Adds a report; one whose loss is not finite is left out. */
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

/** Means of the sums; undefined where nothing was added. */
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
 * What chooses the best weights: recall@k, or of a router's only choice the mean of its hit rates, which is
 * steadier than the first alone.
 */
export function scoreOf({ hits }: Measures, topK: number): number {
  return topK > 1 ? hits[0]! : hits.reduce((sum, rate) => sum + rate, 0) / hits.length;
}
