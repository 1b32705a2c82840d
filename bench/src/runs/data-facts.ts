/** Experts that inputs need, from the true routing: by length of the input, and misses of caches of several sizes. */
import { compare } from '../replay/compare.js';
import { BLIND, type PolicyName } from '../replay/policies.js';
import type { RoutingTrace } from '../replay/routing-trace.js';
import type { CacheMisses, DataFacts, LengthNeeds } from './result.js';

/** Upper ends of the length classes, in tokens. */
const CLASSES = [8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024];
/** Shares of the experts that fit. */
const CACHES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const POLICIES: readonly PolicyName[] = [...BLIND, 'belady'];

interface Row {
  tokens: number;
  needed: number;
  neededOfEncoder: number;
}

export async function dataFacts(trace: RoutingTrace, source: string): Promise<DataFacts> {
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
    misses: await cacheMisses(trace),
  };
}

function byLength(rows: readonly Row[]): LengthNeeds[] {
  return CLASSES.flatMap((most, i): LengthNeeds[] => {
    const least = (CLASSES[i - 1] ?? 0) + 1;
    const own = rows.filter(({ tokens }) => tokens >= least && tokens <= most);
    if (own.length === 0) return [];
    return [
      {
        least,
        most,
        inputs: own.length,
        tokens: mean(own, 'tokens'),
        needed: mean(own, 'needed'),
        neededOfEncoder: mean(own, 'neededOfEncoder'),
      },
    ];
  });
}

async function cacheMisses(trace: RoutingTrace): Promise<CacheMisses[]> {
  const experts = trace.layers.length * trace.experts;
  const caches = CACHES.map((share) => ({
    cache: String(share),
    slots: Math.max(1, Math.round(share * experts)),
  }));
  const report = await compare(trace, {
    caches,
    lookaheads: [],
    policies: POLICIES,
    scope: 'shared',
    learn: 0.2,
  });
  return report.caches.flatMap(({ cache, policies }) =>
    policies.map(({ policy, all }) => ({
      share: Number(cache),
      policy,
      misses: (all.misses + all.prefetches) / all.needs,
    })),
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function mean(rows: readonly Row[], key: keyof Row): number {
  return sum(rows.map((row) => row[key])) / Math.max(1, rows.length);
}
