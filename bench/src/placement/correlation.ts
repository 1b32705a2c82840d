import { averageLoads, type LoadMatrix } from './load-matrix.js';

/**
 * (experts, experts), Pearson correlation of the experts' loads over the batches; 0 beside an expert whose load never
 * changes.
 */
export function correlations(loads: LoadMatrix): Float64Array[] {
  const average = averageLoads(loads);
  const experts = average.length;
  const centred = Array.from({ length: experts }, (_, expert) =>
    Float64Array.from(loads, (row) => row[expert]! - average[expert]!),
  );
  const spread = centred.map((own) => Math.sqrt(dot(own, own)));
  // Rounding errors of a constant load are not a spread.
  const moves = (expert: number) => spread[expert]! > 1e-12;
  return centred.map((own, a) =>
    Float64Array.from(centred, (other, b) =>
      moves(a) && moves(b) ? dot(own, other) / (spread[a]! * spread[b]!) : 0,
    ),
  );
}

function dot(a: Float64Array, b: Float64Array): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}
