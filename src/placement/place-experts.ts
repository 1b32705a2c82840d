/**
 * Which share of several holds which expert of a layer, from recorded routing. After "Towards MoE Deployment", section
 * VII: every share holds the same number of experts; where they do not divide, the first shares hold one more.
 */

/** (batches, experts of a layer): share of a batch's choices that an expert got. A row adds up to 1. */
export type LoadMatrix = readonly Float64Array[];

/** (experts of a layer), number of the share. */
export type Placement = readonly number[];

/** The paper's. */
const CORRELATION_WEIGHT = 0.5;

/** `choices`: experts of a layer, (tokens, topK). An incomplete last batch is left out. */
export function loadsOf(
  choices: ArrayLike<number>,
  { experts, topK, batchTokens }: { experts: number; topK: number; batchTokens: number },
): LoadMatrix {
  const each = batchTokens * topK;
  return Array.from({ length: Math.floor(choices.length / each) }, (_, batch) => {
    const loads = new Float64Array(experts);
    for (let i = batch * each; i < (batch + 1) * each; i++) loads[choices[i]!]! += 1 / each;
    return loads;
  });
}

/** In the order of their numbers: the first share holds the first experts. */
export function placeByIndex(experts: number, shares: number): Placement {
  return roomsOf(experts, shares).flatMap((room, share) => new Array<number>(room).fill(share));
}

/** Each expert, the most loaded first, goes to the share whose experts have the least load together. */
export function placeGreedily(history: LoadMatrix, shares: number): Placement {
  return place(meanLoads(history), shares, () => 0);
}

/**
 * As `placeGreedily`, but each expert of a share counts half of its correlation with the expert that looks for a place
 * besides its load. Experts that are busy in the same batches so part.
 */
export function placeAntiCorrelated(history: LoadMatrix, shares: number): Placement {
  const correlation = correlations(history);
  return place(meanLoads(history), shares, (a, m) => CORRELATION_WEIGHT * correlation[a]![m]!);
}

/** Mean over the batches of the largest part of a batch that one share computes. */
export function busiestPart(placement: Placement, shares: number, batches: LoadMatrix): number {
  const largest = batches.map((batch) => {
    const loads = new Float64Array(shares);
    for (const [expert, load] of batch.entries()) loads[placement[expert]!]! += load;
    return Math.max(...loads);
  });
  return largest.reduce((sum, load) => sum + load, 0) / largest.length;
}

/** `beside(a, m)`: what m adds to its load when a share is chosen for a. Ties go to the first share. */
function place(loads: Float64Array, shares: number, beside: (a: number, m: number) => number): Placement {
  const rooms = roomsOf(loads.length, shares);
  const held: number[][] = rooms.map(() => []);
  const placement = new Array<number>(loads.length).fill(0);
  for (const expert of [...loads.keys()].sort((a, b) => loads[b]! - loads[a]! || a - b)) {
    let [best, least] = [-1, Number.POSITIVE_INFINITY];
    for (const [share, own] of held.entries()) {
      if (own.length === rooms[share]) continue;
      const load = own.reduce((sum, other) => sum + loads[other]! + beside(expert, other), 0);
      if (load < least) [best, least] = [share, load];
    }
    held[best]!.push(expert);
    placement[expert] = best;
  }
  return placement;
}

function roomsOf(experts: number, shares: number): number[] {
  return Array.from({ length: shares }, (_, share) => Math.floor((experts + shares - 1 - share) / shares));
}

function meanLoads(loads: LoadMatrix): Float64Array {
  return loads[0]!.map((_, expert) => loads.reduce((sum, row) => sum + row[expert]!, 0) / loads.length);
}

/** (experts, experts), Pearson's; 0 beside an expert whose load never changes. */
function correlations(loads: LoadMatrix): Float64Array[] {
  const mean = meanLoads(loads);
  const centred = Array.from(mean, (own, expert) => Float64Array.from(loads, (row) => row[expert]! - own));
  const dot = (a: Float64Array, b: Float64Array) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
  const spread = centred.map((own) => Math.sqrt(dot(own, own)));
  // Rounding errors of a constant load are not a spread.
  const moves = (expert: number) => spread[expert]! > 1e-12;
  return centred.map((own, a) =>
    Float64Array.from(centred, (other, b) =>
      moves(a) && moves(b) ? dot(own, other) / (spread[a]! * spread[b]!) : 0,
    ),
  );
}
