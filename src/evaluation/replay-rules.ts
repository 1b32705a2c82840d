/** The rules that a replay compares. Each reports the experts that it would load in each pass. */
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

/**
 * Belady's rule (MIN) over the true routing of the running batch and the next `lookahead` batches. It loads on demand.
 * Beyond the look-ahead, an expert that was used more often counts as needed sooner. Of experts with the same next use,
 * the one whose second use is sooner goes first: it is then loaded again, and the expert loaded last must stay.
 */
export function replayBelady<Pass extends Needs>(
  batches: readonly NeedsBatch<Pass>[],
  { experts, slots }: Pick<Device, 'experts' | 'slots'>,
  lookahead: number,
  watch: PassWatch<NoInfer<Pass>>,
): void {
  const visits = batches.flatMap(({ passes }, batch) =>
    passes.flatMap((pass) => pass.visits.map((ids) => ({ pass, ids, batch }))),
  );
  /** By flat id: the visits that need the expert, how many of them are behind, and how many counted as uses. */
  const visitsOf = Array.from({ length: experts }, (): number[] => []);
  const behind = new Int32Array(experts);
  const uses = new Int32Array(experts);
  for (const [at, { ids }] of visits.entries()) for (const id of ids) visitsOf[id]!.push(at);
  let shown = 0;
  const visitOr = (id: number, nth: number, unknown: number) => {
    const at = visitsOf[id]![behind[id]! + nth] ?? shown;
    return at < shown ? at : unknown;
  };
  const guess = (id: number) => visits.length + 1 / (uses[id]! + 1);
  const nextOf = (id: number) => visitOr(id, 0, guess(id));
  const secondOf = (id: number) => (visitOr(id, 0, -1) < 0 ? guess(id) : visitOr(id, 1, guess(id)));
  const held: number[] = [];
  const places = new Int32Array(experts).fill(-1);
  const evict = () => {
    let victim = held[0]!;
    for (const id of held) {
      const later = nextOf(id) - nextOf(victim);
      if (later > 0 || (later === 0 && (secondOf(victim) - secondOf(id) || victim - id) > 0)) victim = id;
    }
    const last = held.pop()!;
    if (last !== victim) {
      held[places[victim]!] = last;
      places[last] = places[victim]!;
    }
    places[victim] = -1;
  };
  for (const { pass, ids, batch } of visits) {
    while (shown < visits.length && visits[shown]!.batch <= batch + lookahead) shown += 1;
    for (const id of ids) behind[id]! += 1;
    const loads = ids.filter((id) => places[id]! < 0);
    // The next victim is loaded first, so that later loads can evict it.
    if (held.length + loads.length > slots)
      loads.sort((a, b) => nextOf(b) - nextOf(a) || secondOf(a) - secondOf(b));
    for (const id of loads) {
      while (held.length > 0 && held.length >= slots) evict();
      places[id] = held.length;
      held.push(id);
      watch.load(pass, id, true);
    }
    for (const id of ids) uses[id]! += 1;
  }
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
