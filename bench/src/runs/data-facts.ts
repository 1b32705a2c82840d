/** Experts that inputs need, from the true routing, by length of the input. */
import type { RoutingTrace } from '../replay/routing-trace.js';
import { sum } from '../support/statistics.js';
import type { DataFacts, LengthNeeds } from './result.js';

/** Upper ends of the length classes, in tokens. */
const CLASSES = [8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024];
interface Row {
  tokens: number;
  needed: number;
  neededOfEncoder: number;
}

export function dataFacts(trace: RoutingTrace, source: string): DataFacts {
  const encoderLayers = trace.layers.filter((layer) => layer.startsWith('encoder.')).length;
  const rows = trace.batches.map(({ passes }): Row => {
    const counts = passes.map(({ visits }) => sum(visits.map((ids) => ids.length)));
    return {
      tokens: passes[0]!.tokens,
      needed: sum(counts) / (trace.layers.length * trace.experts),
      neededOfEncoder: counts[0]! / (encoderLayers * trace.experts),
    };
  });
  return {
    source,
    inputs: rows.length,
    tokens: sum(rows.map(({ tokens }) => tokens)),
    lengths: byLength(rows),
    needed: mean(rows, 'needed'),
  };
}

function byLength(rows: readonly Row[]): LengthNeeds[] {
  return CLASSES.flatMap((most, i): LengthNeeds[] => {
    const least = (CLASSES[i - 1] ?? 0) + 1;
    const own = rows.filter(({ tokens }) => tokens >= least && tokens <= most);
    if (own.length === 0) return [];
    const means = { tokens: mean(own, 'tokens'), needed: mean(own, 'needed') };
    return [{ least, most, inputs: own.length, ...means, neededOfEncoder: mean(own, 'neededOfEncoder') }];
  });
}

function mean(rows: readonly Row[], key: keyof Row): number {
  return sum(rows.map((row) => row[key])) / Math.max(1, rows.length);
}
