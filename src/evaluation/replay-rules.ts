/** The ways of filling a device that a replay compares: what each would load, pass by pass. */
import { Belady, type TrueVisit } from '../inference/belady.js';
import { EVICTION_POLICIES } from '../inference/eviction/index.js';
import { fewestLoads } from './fewest-loads.js';
import {
  type ReplayBatch,
  type ReplayPass,
  type ReplayRule,
  type ReplayStore,
  replay,
  simulated,
} from './replay.js';
import { StoreSimulation } from './store-simulation.js';

export interface Device {
  /** Of the model, all layers. */
  experts: number;
  slots: number;
}

/** Told the pass during which something happens to an expert. */
export interface PassWatch<Pass> {
  /** `demanded`: a layer waited for it. */
  load(pass: Pass, id: number, demanded: boolean): void;
  /** A layer needs it; rules without prefetches do not tell. */
  use?(pass: Pass, id: number): void;
}

/** What a rule without tables needs to know of a pass, and of a batch. */
type Needs = Pick<ReplayPass, 'visits'>;
export interface NeedsBatch<Pass extends Needs = Needs> {
  passes: readonly Pass[];
}

/** A store that is planned for by an eviction policy, with tables or without. */
export function replayStore<Pass extends ReplayPass>(
  batches: Iterable<ReplayBatch<Pass>>,
  { experts, slots }: Device,
  rule: ReplayRule,
  watch: PassWatch<NoInfer<Pass>>,
): void {
  new Follower(experts, slots, watch).run(batches, rule);
}

/**
 * The `hot` experts, first the hottest, are pinned once the first `learned` batches have run under LFU: as many as
 * leave one slot, in which the others take turns.
 */
export function replayPinned<Pass extends ReplayPass>(
  batches: readonly ReplayBatch<Pass>[],
  { experts, slots }: Device,
  { hot, learned }: { hot: readonly number[]; learned: number },
  watch: PassWatch<NoInfer<Pass>>,
): void {
  const follow = new Follower(experts, slots, watch);
  const { lfu, lru } = EVICTION_POLICIES;
  follow.run(batches.slice(0, learned), { policy: lfu, lookahead: null });
  const rest = batches.slice(learned);
  follow.pin(hot.slice(0, slots < experts ? slots - 1 : experts), rest[0]?.passes[0]);
  follow.run(rest, { policy: lru, lookahead: null });
}

/** Belady's rule over the true routing of the running batch and of so many behind it, on demand. */
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
  // A batch beyond every look-ahead settles those before it.
  belady.add({ batch: batches.length + lookahead, ids: [] });
}

/** Belady's rule over the whole run: nothing loads less. */
export function replayFewest<Pass extends Needs>(
  batches: readonly NeedsBatch<Pass>[],
  { experts, slots }: Device,
  watch: PassWatch<NoInfer<Pass>>,
): void {
  const visits = batches.flatMap(({ passes }) =>
    passes.flatMap((pass) => pass.visits.map((ids) => ({ pass, ids }))),
  );
  const needs = visits.map(({ ids }) => ids);
  fewestLoads(needs, experts, slots, (id, visit) => watch.load(visits[visit]!.pass, id, true));
}

/** Used experts, the one that most visits need first. */
export function hottest(batches: readonly NeedsBatch[], experts: number): number[] {
  const uses = new Float64Array(experts);
  for (const { passes } of batches) {
    for (const { visits } of passes) for (const ids of visits) for (const id of ids) uses[id]! += 1;
  }
  return [...uses.keys()].filter((id) => uses[id]! > 0).sort((a, b) => uses[b]! - uses[a]! || a - b);
}

/** A simulated store that knows which pass it loads for. */
class Follower<Pass extends ReplayPass> {
  readonly #store: StoreSimulation;
  #pass: Pass | undefined;

  constructor(experts: number, slots: number, watch: PassWatch<Pass>) {
    this.#store = new StoreSimulation(experts, slots, {
      load: (id, demanded) => {
        if (this.#pass !== undefined) watch.load(this.#pass, id, demanded);
      },
      use: (id) => {
        if (this.#pass !== undefined) watch.use?.(this.#pass, id);
      },
    });
  }

  run(batches: Iterable<ReplayBatch<Pass>>, rule: ReplayRule): void {
    const store = simulated(this.#store);
    const followed: ReplayStore<Pass> = {
      residency: store.residency,
      run: (pass, plan) => {
        this.#pass = pass;
        store.run(pass, plan);
      },
    };
    replay(batches, followed, rule);
  }

  /** `pass`: the one that the loads count for. */
  pin(ids: readonly number[], pass: Pass | undefined): void {
    this.#pass = pass;
    this.#store.pin(ids);
  }
}
