/** The rules that a replay compares. Each reports the experts that it would load in each pass. */
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
