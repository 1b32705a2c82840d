/** Replays a trace under every policy, cache size and look-ahead: what each one loads. */
import { sum } from '../support/statistics.js';
import { leastBytes } from './fewest-loads.js';
import { BLIND, type PolicyRun, runPolicy } from './policies.js';
import type { Phase, RoutingTrace } from './routing-trace.js';

export interface Counts {
  /** Experts loaded, on demand or ahead. */
  loads: number;
  bytes: number;
}

export interface PolicyCounts extends PolicyRun, Record<Phase, Counts> {
  /** Bytes over the least that any policy can move: Belady's rule with the whole trace in view. */
  overBelady: number;
}

export interface ReplayReport {
  model: string | null;
  layers: number;
  /** Of one layer. */
  experts: number;
  /** Of all experts. */
  bytes: number;
  phases: Record<Phase, { tokens: number; passes: number; needs: number }>;
  caches: { share: number; slots: number; policies: PolicyCounts[] }[];
}

/** `shares`: of all experts that a cache holds. Throws where a policy moves fewer bytes than the bound. */
export function compare(trace: RoutingTrace, shares: readonly number[], lookaheads: readonly number[]): ReplayReport {
  const { model, layers, experts, expertBytes, batches } = trace;
  const all = layers.length * experts;
  const bytesOf = (id: number) => expertBytes[Math.floor(id / experts)]!;
  const needs = batches.flatMap(({ passes }) => passes.flatMap(({ visits }) => visits));
  const runs: PolicyRun[] = [
    ...BLIND.map((policy) => ({ policy, lookahead: null })),
    ...lookaheads.map((lookahead) => ({ policy: 'true-tables' as const, lookahead })),
    { policy: 'belady', lookahead: null },
  ];
  const caches = shares.map((share) => {
    const slots = Math.max(1, Math.round(share * all));
    const bound = leastBytes(needs, { experts: all, slots, bytesOf });
    const policies = runs.map((run): PolicyCounts => {
      const counts = countsOf(run, trace, slots, bytesOf);
      const bytes = counts.prefill.bytes + counts.decode.bytes;
      if (bytes < bound) {
        throw new Error(`${run.policy} moves ${bytes} bytes, the bound is ${bound}. This is a bug.`);
      }
      return { ...run, ...counts, overBelady: bytes / bound };
    });
    return { share, slots, policies };
  });
  return {
    model,
    layers: layers.length,
    experts,
    bytes: expertBytes.reduce((sum, bytes) => sum + bytes * experts, 0),
    phases: { prefill: sizeOf(trace, 'prefill'), decode: sizeOf(trace, 'decode') },
    caches,
  };
}

/** A load ahead is charged to the phase that uses it, or if none does to the one that it ran in. */
function countsOf(
  run: PolicyRun,
  trace: RoutingTrace,
  slots: number,
  bytesOf: (id: number) => number,
): Record<Phase, Counts> {
  const counts = { prefill: { loads: 0, bytes: 0 }, decode: { loads: 0, bytes: 0 } };
  const charge = (phase: Phase, id: number) => {
    counts[phase].loads += 1;
    counts[phase].bytes += bytesOf(id);
  };
  const unused = new Map<number, Phase>();
  const pay = (id: number, phase = unused.get(id)) => {
    if (unused.delete(id)) charge(phase!, id);
  };
  const device = { experts: trace.layers.length * trace.experts, layerExperts: trace.experts, slots };
  runPolicy(run, trace, device, {
    load: ({ phase }, id, demanded) => {
      // An expert that was loaded ahead and evicted before its use.
      pay(id);
      if (demanded) charge(phase, id);
      else unused.set(id, phase);
    },
    use: ({ phase }, id) => pay(id, phase),
  });
  for (const id of [...unused.keys()]) pay(id);
  return counts;
}

/** Tokens, passes and experts needed in a phase. */
function sizeOf({ batches }: RoutingTrace, phase: Phase) {
  const passes = batches.flatMap(({ passes: own }) => own).filter((pass) => pass.phase === phase);
  return {
    tokens: sum(passes.map(({ tokens }) => tokens)),
    passes: passes.length,
    needs: sum(passes.flatMap(({ visits }) => visits.map((ids) => ids.length))),
  };
}
