/** Figures of samples. Values need not be sorted; none are changed. */

/** The value below which a share `q` of the values lies, the nearest rank. */
export function quantile(values: readonly number[], q: number): number {
  if (values.length === 0) throw new Error('A quantile of nothing. This is a bug.');
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))]!;
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

export function mean(values: readonly number[]): number {
  return sum(values) / values.length;
}

/** The mean of the two middle values where their number is even. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  if (sorted.length === 0) throw new Error('A median of nothing. This is a bug.');
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** Medians of numbers, key by key; what is no number is taken from the first sample. */
export function medians<T extends object>(samples: readonly T[]): T {
  const first = samples[0]!;
  const entries = Object.entries(first).map(([key, value]) => {
    if (typeof value !== 'number') return [key, value];
    return [key, median(samples.map((sample) => (sample as Record<string, unknown>)[key] as number))];
  });
  return Object.fromEntries(entries) as T;
}
