/** Replays a trace under every policy, cache size and look-ahead, and puts them beside each other. */

import { leastBytes } from '../../../dist/evaluation/fewest-loads.js';
import { isBlind, type PolicyName, type PolicyRun, runPolicy, runsOf } from './policies.js';
import { layerOf, PHASES, type Phase, type RoutingTrace, sizeOf } from './routing-trace.js';
import { Tally } from './tally.js';

export interface CacheSize {
  /** As the user wrote it. */
  cache: string;
  /** Experts it holds, of all layers. */
  slots: number;
}

export interface CompareOptions {
  caches: readonly CacheSize[];
  lookaheads: readonly number[];
  policies: readonly PolicyName[];
  /** One cache for all layers, or an equal one for each. */
  scope: 'shared' | 'per-layer';
  /** Share of the batches, from the first, that `static-hot` learns from. */
  learn: number;
  /** Called between two replays. It may throw to stop them. */
  onReplay?: (done: number, total: number) => Promise<void>;
}

export interface Counts {
  /** Experts that turns of layers needed. */
  needs: number;
  /** Needed experts that were resident, kept or prefetched. `hits + misses` is `needs`. */
  hits: number;
  misses: number;
  /** Loaded ahead because a plan or a pin asked for it. */
  prefetches: number;
  bytes: number;
  bytesPerToken: number;
  /**
   * Bytes over the least that any policy can move: Belady's rule with the whole trace in view. Of all phases alone,
   * because a policy may move less than that rule in one of them.
   */
  overBelady: number | null;
  /** Bytes over those of the blind policy that moves fewest. */
  overBlind: number | null;
}

export type Span = Phase | 'all';
export const SPANS: readonly Span[] = ['all', ...PHASES];

export interface PolicyCounts extends PolicyRun, Record<Span, Counts> {}

export interface CacheReport extends CacheSize {
  policies: PolicyCounts[];
}

export interface ReplayReport {
  trace: string;
  model: string | null;
  layers: number;
  /** Of one layer. */
  experts: number;
  /** Of all experts. */
  bytes: number;
  scope: CompareOptions['scope'];
  /** Batches that `static-hot` chose from. */
  learned: number;
  batches: number;
  phases: Record<Phase, { tokens: number; passes: number; needs: number }>;
  caches: CacheReport[];
}

export async function compare(trace: RoutingTrace, options: CompareOptions): Promise<ReplayReport> {
  const { caches, lookaheads, policies, scope, learn, onReplay } = options;
  const { layers, experts, expertBytes, batches } = trace;
  const learned = Math.ceil(learn * batches.length);
  const phases = { prefill: sizeOf(trace, 'prefill'), decode: sizeOf(trace, 'decode') };
  const parts = scope === 'shared' ? [trace] : layers.map((_, layer) => layerOf(trace, layer));
  const runs = runsOf(policies, lookaheads);
  const reports: CacheReport[] = [];
  let done = 0;
  for (const size of caches) {
    const counted: PolicyCounts[] = [];
    for (const run of runs) {
      const tally = new Tally();
      for (const [i, part] of parts.entries()) {
        const device = {
          experts: part.layers.length * experts,
          layerExperts: experts,
          slots: partOf(size.slots, parts.length, i),
        };
        const bytesOf = (id: number) => part.expertBytes[Math.floor(id / experts)]!;
        runPolicy(run, part, device, learned, tally.watch(bytesOf));
        tally.settle();
      }
      counted.push({ ...run, ...countsOf(tally.phases, phases) });
      done += 1;
      await onReplay?.(done, runs.length * caches.length);
    }
    const bounds = parts.map((part, i) => leastOf(part, partOf(size.slots, parts.length, i)));
    reports.push({
      ...size,
      policies: withRatios(
        counted,
        bounds.reduce((sum, bytes) => sum + bytes, 0),
      ),
    });
  }
  return {
    trace: trace.name,
    model: trace.model,
    layers: layers.length,
    experts,
    bytes: expertBytes.reduce((sum, bytes) => sum + bytes * experts, 0),
    scope,
    learned,
    batches: batches.length,
    phases,
    caches: reports,
  };
}

function leastOf({ layers, experts, expertBytes, batches }: RoutingTrace, slots: number): number {
  const visits = batches.flatMap(({ passes }) => passes.flatMap((pass) => pass.visits));
  const bytesOf = (id: number) => expertBytes[Math.floor(id / experts)]!;
  return leastBytes(visits, { experts: layers.length * experts, slots, bytesOf });
}

/** The first parts get the remainder. */
function partOf(slots: number, parts: number, part: number): number {
  return Math.floor(slots / parts) + (part < slots % parts ? 1 : 0);
}

function countsOf(tally: Tally['phases'], phases: ReplayReport['phases']): Record<Span, Counts> {
  const spanOf = (span: Span): Counts => {
    const own: readonly Phase[] = span === 'all' ? PHASES : [span];
    const sum = (of: (phase: Phase) => number) => own.reduce((total, phase) => total + of(phase), 0);
    const [needs, tokens] = [sum((phase) => phases[phase].needs), sum((phase) => phases[phase].tokens)];
    const misses = sum((phase) => tally[phase].misses);
    const bytes = sum((phase) => tally[phase].bytes);
    return {
      needs,
      hits: needs - misses,
      misses,
      prefetches: sum((phase) => tally[phase].prefetches),
      bytes,
      bytesPerToken: tokens === 0 ? 0 : bytes / tokens,
      overBelady: null,
      overBlind: null,
    };
  };
  return { all: spanOf('all'), prefill: spanOf('prefill'), decode: spanOf('decode') };
}

function withRatios(counted: readonly PolicyCounts[], bound: number): PolicyCounts[] {
  const blind = counted.filter(({ policy }) => isBlind(policy));
  return counted.map((run) => {
    if (run.all.bytes < bound) {
      throw new Error(`${run.policy} moves ${run.all.bytes} bytes, the bound is ${bound}. This is a bug.`);
    }
    const spanOf = (span: Span): Counts => {
      const { bytes } = run[span];
      const least = Math.min(...blind.map((other) => other[span].bytes));
      return {
        ...run[span],
        overBelady: span === 'all' ? ratio(bytes, bound) : null,
        overBlind: ratio(bytes, Number.isFinite(least) ? least : undefined),
      };
    };
    return { ...run, all: spanOf('all'), prefill: spanOf('prefill'), decode: spanOf('decode') };
  });
}

function ratio(bytes: number, base: number | undefined): number | null {
  return base === undefined || base === 0 ? null : bytes / base;
}
