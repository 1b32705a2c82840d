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
  layers: { tokens: number; hits: [number, number, number] }[];
}

export interface Measures {
  /** Per token and layer: distillation + λ · cross-entropy. */
  loss: number;
  distillation: number;
  crossEntropy: number;
  /** Share of tokens whose expert is among the best 1, 2, 3 of the prediction; mean over layers. */
  hits: [number, number, number];
  layers: { tokens: number; hits: [number, number, number] }[];
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
    sums.layers[i] ??= { tokens: 0, hits: [0, 0, 0] };
    const into = sums.layers[i]!;
    into.tokens += layer.tokens;
    layer.hits.forEach((hits, rank) => {
      into.hits[rank as 0 | 1 | 2] += hits;
    });
  });
}

/** Means of the sums; undefined where nothing was added. */
export function meansOf(sums: MeasureSums): Measures | undefined {
  const { tokens } = sums;
  if (tokens === 0) return undefined;
  const layers = sums.layers.map((layer) => ({
    tokens: layer.tokens,
    hits: layer.hits.map((hits) => hits / layer.tokens) as [number, number, number],
  }));
  const mean = (rank: 0 | 1 | 2) => layers.reduce((sum, layer) => sum + layer.hits[rank], 0) / layers.length;
  return {
    loss: sums.loss / tokens,
    distillation: sums.distillation / tokens,
    crossEntropy: sums.crossEntropy / tokens,
    hits: [mean(0), mean(1), mean(2)],
    layers,
  };
}

/** What chooses the best weights: the mean of the three hit rates, which is steadier than the first alone. */
export function scoreOf({ hits }: Measures): number {
  return (hits[0] + hits[1] + hits[2]) / 3;
}
