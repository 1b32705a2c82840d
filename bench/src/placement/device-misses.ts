/**
 * What balancing does to misses: every device caches the experts that were placed on it, and a policy replays what the
 * routing needs of each. "Towards MoE Deployment", sections VI and VII (its figure 12: a cache for each device).
 */
import { SidaError } from '../../../dist/errors.js';
import { type BLIND, runPolicy } from '../replay/policies.js';
import type { RecordedBatch, RecordedPass, RoutingTrace } from '../replay/routing-trace.js';
import { type LoadMatrix, loadMatrix } from './load-matrix.js';
import {
  type Placement,
  placeAntiCorrelated,
  placeByIndex,
  placeGreedily,
  placeInTurn,
} from './place-experts.js';

export const PLACED_BY = ['index', 'round-robin', 'greedy', 'anti-correlation'] as const;
type PlacedBy = (typeof PLACED_BY)[number];

type Place = (experts: number, devices: number, history: () => LoadMatrix) => Placement;

const PLACE: Record<PlacedBy, Place> = {
  index: placeByIndex,
  'round-robin': placeInTurn,
  greedy: (_, devices, history) => placeGreedily(history(), devices),
  'anti-correlation': (_, devices, history) => placeAntiCorrelated(history(), devices),
};

/** Those that need no table: a table is about all experts of a layer, and a device holds a part of them. */
type DevicePolicy = (typeof BLIND)[number] | 'belady';

interface DeviceMissOptions {
  devices: number;
  /** Experts that all caches hold together; each device has an equal part. */
  slots: number;
  policy: DevicePolicy;
  /** Share of the batches, from the first, by which experts are placed. The rest is replayed, from empty caches. */
  learn: number;
}

export interface DeviceMisses {
  placedBy: PlacedBy;
  /** Experts that turns of layers needed. */
  needs: number;
  /** Experts loaded, on demand or ahead. */
  loads: number;
  /** Loads of the device that loads most. */
  mostLoads: number;
  /** Share of its needs that the device with the worst cache loads. */
  worstDevice: number;
  /**
   * Loads of the busiest device of each pass, added up: devices wait for each other, so that these decide its time. An
   * even spread has `loads / devices`.
   */
  busiestLoads: number;
}

/** Throws invalid_request where a device would get no expert or no slot. */
export function deviceMisses(
  trace: RoutingTrace,
  placedBy: PlacedBy,
  { devices, slots, policy, learn }: DeviceMissOptions,
): DeviceMisses {
  const { layers, experts } = trace;
  if (devices > experts || slots < devices) {
    const message = `${devices} devices cannot share ${experts} experts of a layer and a cache of ${slots}: each holds one of both at least`;
    throw new SidaError({ code: 'invalid_request', message });
  }
  const learned = Math.ceil(learn * trace.batches.length);
  const history = trace.batches.slice(0, learned);
  const measured = { ...trace, batches: trace.batches.slice(learned) };
  const placements = layers.map((_, layer) =>
    PLACE[placedBy](experts, devices, () => loadMatrix(trace, history, layer, 1)),
  );
  const deviceOf = (id: number) => placements[Math.floor(id / experts)]![id % experts]!;

  const result = { needs: 0, loads: 0, mostLoads: 0, worstDevice: 0, busiestLoads: 0 };
  const passes = measured.batches.flatMap((batch) => batch.passes);
  const busiest = new Float64Array(passes.length);
  for (let device = 0; device < devices; device++) {
    const { part, placeOf } = partOf(measured, (id) => deviceOf(id) === device);
    const needs = part.batches
      .flatMap((batch) => batch.passes)
      .reduce((sum, { visits }) => sum + visits.reduce((total, ids) => total + ids.length, 0), 0);
    const own = new Float64Array(passes.length);
    let loads = 0;
    const memory = {
      experts: layers.length * experts,
      layerExperts: experts,
      slots: Math.floor(slots / devices) + (device < slots % devices ? 1 : 0),
    };
    runPolicy({ policy, lookahead: null }, part, memory, {
      load: (pass) => {
        loads += 1;
        own[placeOf.get(pass.visits)!]! += 1;
      },
    });
    for (const [pass, count] of own.entries()) busiest[pass] = Math.max(busiest[pass]!, count);
    result.needs += needs;
    result.loads += loads;
    result.mostLoads = Math.max(result.mostLoads, loads);
    result.worstDevice = Math.max(result.worstDevice, needs === 0 ? 0 : loads / needs);
  }
  result.busiestLoads = busiest.reduce((sum, count) => sum + count, 0);
  return { placedBy, ...result };
}

/** The needs that one device has, and the place of each of its passes among all of the trace, by their visits. */
function partOf(
  trace: RoutingTrace,
  isOwn: (id: number) => boolean,
): { part: RoutingTrace; placeOf: Map<RecordedPass['visits'], number> } {
  const placeOf = new Map<RecordedPass['visits'], number>();
  let at = 0;
  const batches = trace.batches.map(
    ({ passes }): RecordedBatch => ({
      passes: passes.flatMap((pass) => {
        const place = at++;
        const turns = pass.visits.map((ids, turn) => {
          const kept = [...ids.keys()].filter((i) => isOwn(ids[i]!));
          return { ids: kept.map((i) => ids[i]!), choices: kept.map((i) => pass.choices[turn]![i]!) };
        });
        const needed = turns.filter(({ ids }) => ids.length > 0);
        if (needed.length === 0) return [];
        const own: RecordedPass = {
          ...pass,
          visits: needed.map(({ ids }) => ids),
          choices: needed.map(({ choices }) => choices),
        };
        placeOf.set(own.visits, place);
        return [own];
      }),
    }),
  );
  return { part: { ...trace, batches }, placeOf };
}
