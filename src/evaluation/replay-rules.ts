/** The rules that a replay compares. Each reports the experts that it would load in each pass. */
import { Belady, type TrueVisit } from '../inference/belady.js';
import { EVICTION_POLICIES } from '../inference/eviction/index.js';
import { fewestLoads } from './fewest-loads.js';
import { type ReplayBatch, type ReplayPass, type ReplayRule, replay } from './replay.js';
import { type Device, type PassWatch, WatchedStore } from './watched-store.js';

export type { Device, PassWatch };

/** The parts of a pass and of a batch that a rule without tables reads. */
type Needs = Pick<ReplayPass, 'visits'>;
export interface NeedsBatch<Pass extends Needs = Needs> {
  passes: readonly Pass[];
}

/** Replays batches through a store whose plans come from an eviction policy, with or without tables. */
export function replayStore<Pass extends ReplayPass>(
  batches: Iterable<ReplayBatch<Pass>>,
  device: Device,
  rule: ReplayRule,
  watch: PassWatch<NoInfer<Pass>>,
): void {
  replay(batches, new WatchedStore(device, watch), rule);
}

/**
 * Runs the first `learned` batches under LFU and then pins the `hot` experts, hottest first. One slot stays free for
 * the other experts, which replace each other there.
 */
export function replayPinned<Pass extends ReplayPass>(
  batches: readonly ReplayBatch<Pass>[],
  device: Device,
  { hot, learned }: { hot: readonly number[]; learned: number },
  watch: PassWatch<NoInfer<Pass>>,
): void {
  const { experts, slots } = device;
  const store = new WatchedStore(device, watch);
  const { lfu, lru } = EVICTION_POLICIES;
  replay(batches.slice(0, learned), store, { policy: lfu, lookahead: null });
  const rest = batches.slice(learned);
  store.pin(hot.slice(0, slots < experts ? slots - 1 : experts), rest[0]?.passes[0]);
  replay(rest, store, { policy: lru, lookahead: null });
}

/** Belady's rule over the true routing of the running batch and the next `lookahead` batches. It loads on demand. */
export function replayBelady<Pass extends Needs>(
  batches: readonly NeedsBatch<Pass>[],
  { experts, slots }: Device,
  lookahead: number,
  watch: PassWatch<NoInfer<Pass>>,
): void {
  const lengths = batches.map(({ passes }) => passes.reduce((sum, { visits }) => sum + visits.length, 0));
  const belady = new Belady<TrueVisit & { pass?: Pass }>(experts, slots, lookahead, {
    batchVisits: lengths.reduce((most, length) => Math.max(most, length), 1),
    onLoads: ({ pass }, ids) => {
      for (const id of ids) watch.load(pass!, id, true);
    },
  });
  batches.forEach(({ passes }, batch) => {
    for (const pass of passes) for (const ids of pass.visits) belady.add({ batch, ids, pass });
  });
  // A batch beyond every look-ahead makes Belady process the batches before it.
  belady.add({ batch: batches.length + lookahead, ids: [] });
}

/** Belady's rule over the whole run. No other rule loads less. */
export function replayFewest<Pass extends Needs>(
  batches: readonly NeedsBatch<Pass>[],
  { experts, slots }: Device,
  watch: PassWatch<NoInfer<Pass>>,
): void {
  const visits = batches.flatMap(({ passes }) =>
    passes.flatMap((pass) => pass.visits.map((ids) => ({ pass, ids }))),
  );
  const needs = visits.map(({ ids }) => ids);
  fewestLoads(needs, experts, slots, {
    onLoad: (id, visit) => watch.load(visits[visit]!.pass, id, true),
  });
}

/** The experts in use, sorted by the number of visits that need them, most first. */
export function hottest(batches: readonly NeedsBatch[], experts: number): number[] {
  const uses = new Float64Array(experts);
  for (const { passes } of batches) {
    for (const { visits } of passes) for (const ids of visits) for (const id of ids) uses[id]! += 1;
  }
  return [...uses.keys()].filter((id) => uses[id]! > 0).sort((a, b) => uses[b]! - uses[a]! || a - b);
}
