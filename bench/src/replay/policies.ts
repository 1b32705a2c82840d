/** The policies that a replay compares, by name. */

import type { TableNeeds } from '../../../dist/native/addon-types.js';
import { fewestLoads } from './fewest-loads.js';
import { type ReplayBatch, type ReplayPass, replay } from './replay.js';
import type { RecordedPass, RoutingTrace } from './routing-trace.js';
import { type Device, type PassWatch, WatchedStore } from './watched-store.js';

/** Policies that know the past only. `none` is what `sida serve --predictor none` does. */
export const BLIND = ['fifo', 'lru', 'lfu', 'expert-buffering', 'none'] as const;
/** `true-tables`: the planner with the recorded routing as its tables. `belady` sees the whole trace. */
export type PolicyName = (typeof BLIND)[number] | 'true-tables' | 'belady';

export interface PolicyRun {
  policy: PolicyName;
  /** Batches behind the running one whose tables are ready; null without tables. */
  lookahead: number | null;
}

export function runPolicy(
  { policy, lookahead }: PolicyRun,
  trace: RoutingTrace,
  device: Device,
  watch: PassWatch<RecordedPass>,
): void {
  if (policy === 'belady') {
    const visits = trace.batches.flatMap(({ passes }) =>
      passes.flatMap((pass) => pass.visits.map((ids) => ({ pass, ids }))),
    );
    const needs = visits.map(({ ids }) => ids);
    const onLoad = (id: number, visit: number) => watch.load(visits[visit]!.pass, id, true);
    fewestLoads(needs, device.experts, device.slots, { onLoad });
    return;
  }
  const rule = policy === 'none' || policy === 'true-tables' ? 'farthest-next-use' : policy;
  const batches = tabled(trace, policy === 'true-tables');
  const store = new WatchedStore<RecordedPass & ReplayPass>({ ...device, policy: rule }, watch);
  replay(batches, store, lookahead);
}

let lastTable = 0;

/** Batches with the recorded routing as their tables, or without tables. */
function tabled<Pass extends Pick<RecordedPass, 'visits'>>(
  { batches, experts }: { batches: readonly { passes: readonly Pass[] }[]; experts: number },
  known: boolean,
): ReplayBatch<Pass & ReplayPass>[] {
  return batches.map(({ passes }) => {
    const tables = passes.map(({ visits }) => (known ? visits.map((ids) => certain(ids, experts)) : []));
    return {
      passes: passes.map((pass, i) => ({ ...pass, own: tables[i]!, behind: tables.slice(i + 1).flat() })),
      forecast: tables.flat(),
    };
  });
}

/** A table of one layer. It computes its chances on demand: all chances of a long trace would fill the memory. */
function certain(ids: readonly number[], experts: number): TableNeeds {
  return {
    id: ++lastTable,
    layer: Math.floor(ids[0]! / experts),
    get need() {
      const need = new Float32Array(experts);
      for (const id of ids) need[id % experts] = 1;
      return need;
    },
  };
}
