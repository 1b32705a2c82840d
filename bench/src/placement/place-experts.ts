/**
 * Which device holds which expert of a layer. After "Towards MoE Deployment: Mitigating Inefficiencies in
 * Mixture-of-Expert (MoE) Inference", section VII: every device holds the same number of experts (where they do not
 * divide, the first devices one more), chosen from the loads of earlier batches.
 */
import type { LoadMatrix } from './load-matrix.js';

/** (experts of a layer), number of the device. */
export type Placement = readonly number[];

/** The paper's. */
const CORRELATION_WEIGHT = 0.5;

/** In the order of their numbers: the first device holds the first experts. Runtimes without knowledge do this. */
export function placeByIndex(experts: number, devices: number): Placement {
  return roomsOf(experts, devices).flatMap((room, device) => new Array<number>(room).fill(device));
}

/** Each expert, the most loaded first, goes to the device whose experts have the least load together. */
export function placeGreedily(history: LoadMatrix, devices: number): Placement {
  return place(averageLoads(history), devices, () => 0);
}

/**
 * As `placeGreedily`, but each expert m of a device counts as Ã_m + `weight` · S_am for the expert a that looks for a
 * place: S is the correlation of their loads. Experts that are busy in the same batches so part.
 */
export function placeAntiCorrelated(
  history: LoadMatrix,
  devices: number,
  weight = CORRELATION_WEIGHT,
): Placement {
  const correlation = correlations(history);
  return place(averageLoads(history), devices, (a, m) => weight * correlation[a]![m]!);
}

/** `beside(a, m)`: what m adds to its load when a device is chosen for a. Ties go to the first device. */
function place(loads: Float64Array, devices: number, beside: (a: number, m: number) => number): Placement {
  const rooms = roomsOf(loads.length, devices);
  const held: number[][] = rooms.map(() => []);
  const order = [...loads.keys()].sort((a, b) => loads[b]! - loads[a]! || a - b);
  const placement = new Array<number>(loads.length).fill(0);
  for (const expert of order) {
    let [best, least] = [-1, Number.POSITIVE_INFINITY];
    for (const [device, own] of held.entries()) {
      if (own.length === rooms[device]) continue;
      const load = own.reduce((sum, other) => sum + loads[other]! + beside(expert, other), 0);
      if (load < least) [best, least] = [device, load];
    }
    held[best]!.push(expert);
    placement[expert] = best;
  }
  return placement;
}

/** Experts that each device holds. */
function roomsOf(experts: number, devices: number): number[] {
  return Array.from(
    { length: devices },
    (_, device) => Math.floor(experts / devices) + (device < experts % devices ? 1 : 0),
  );
}

/** (experts), mean over the batches. */
function averageLoads(loads: LoadMatrix): Float64Array {
  const average = new Float64Array(loads[0]!.length);
  for (const row of loads)
    for (const [expert, share] of row.entries()) average[expert]! += share / loads.length;
  return average;
}

/**
 * (experts, experts), Pearson correlation of the experts' loads over the batches; 0 beside an expert whose load never
 * changes.
 */
export function correlations(loads: LoadMatrix): Float64Array[] {
  const average = averageLoads(loads);
  const experts = average.length;
  const centred = Array.from({ length: experts }, (_, expert) =>
    Float64Array.from(loads, (row) => row[expert]! - average[expert]!),
  );
  const spread = centred.map((own) => Math.sqrt(dot(own, own)));
  // Rounding errors of a constant load are not a spread.
  const moves = (expert: number) => spread[expert]! > 1e-12;
  return centred.map((own, a) =>
    Float64Array.from(centred, (other, b) =>
      moves(a) && moves(b) ? dot(own, other) / (spread[a]! * spread[b]!) : 0,
    ),
  );
}

function dot(a: Float64Array, b: Float64Array): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}
