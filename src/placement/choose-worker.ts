/** Who gets a request: the worker that already holds its experts, unless it has more than its part of the work. */
import { isResident, type WorkerSummary } from './worker-summary.js';

/**
 * Who runs a job of a shared queue: a worker that holds its experts, within a bound of load; whoever is given it; or what of
 * the two may pay (`resolvePlacement`).
 */
export const PLACEMENTS = ['auto', 'experts', 'any'] as const;
export type Placement = (typeof PLACEMENTS)[number];

export interface KnownWorker {
  /** What it last told; null: nothing yet, or nothing that could be read. */
  summary: WorkerSummary | null;
  /** Requests given to it since then by whoever chooses. */
  given?: number;
}

export interface ChoiceOptions {
  nowMs: number;
  /** A summary from longer ago, or as far in the future, is stale: its worker counts as unknown. */
  maxAgeMs: number;
  /**
   * At least 1. With the new request a worker may hold this many times the average, plus one ("consistent hashing with
   * bounded loads"). 1 spreads evenly; the larger, the more counts what is resident.
   */
  loadFactor: number;
  /**
   * A request that a worker holds counts as this share of the bytes that the new one needs: few bytes saved are not worth a
   * longer queue. 0: what is missing decides alone.
   */
  loadWeight: number;
  /** Bytes of an expert by flat id. */
  bytesOf: (id: number) => number;
  /** Counts the choices: those who are alike take turns. */
  turn: number;
}

/** What bench/placement-workers.mjs measures. */
export const CHOICE_DEFAULTS = { maxAgeMs: 5000, loadFactor: 1.25, loadWeight: 0.05 };

export interface WorkerChoice {
  /** Index of the worker. */
  worker: number;
  /** Bytes that it is expected to load for the request; null: there is no table. */
  missingBytes: number | null;
  /** In what those within the bound differ: what is missing, else their loads, else nothing. */
  by: 'experts' | 'load' | 'turn';
}

interface Candidate {
  worker: number;
  load: number;
  missing: number;
  /** Bytes: what is missing, and what its load counts for. */
  cost: number;
}

/**
 * Of the workers with room, and within the bound, the one whose missing experts have the fewest bytes, its load counted
 * in; then the least loaded; then the next in turn. An unknown worker counts as empty of experts and as busy as the busiest known one.
 * Without `need` nothing is missing anywhere, so the least loaded gets it; without summaries either they take turns.
 * Undefined: all are full.
 */
export function chooseWorker(
  need: Float64Array | null,
  workers: readonly KnownWorker[],
  options: ChoiceOptions,
): WorkerChoice | undefined {
  if (!(options.loadFactor >= 1)) {
    throw new RangeError(`Expected loadFactor to be at least 1, found ${options.loadFactor}`);
  }
  const candidates = withRoom(need, workers, options);
  const bound = loadBound(candidates, options.loadFactor);
  const admitted = candidates.filter(({ load }) => load + 1 <= bound);
  const nearest = least(admitted, ({ cost }) => cost);
  const idlest = least(nearest, ({ load }) => load);
  const first = options.turn % Math.max(1, workers.length);
  const chosen = idlest.find(({ worker }) => worker >= first) ?? idlest[0];
  if (chosen === undefined) return undefined;
  const alike = (of: (candidate: Candidate) => number) => admitted.every((other) => of(other) === of(chosen));
  return {
    worker: chosen.worker,
    missingBytes: need === null ? null : chosen.missing,
    by: !alike(({ missing }) => missing) ? 'experts' : !alike(({ load }) => load) ? 'load' : 'turn',
  };
}

/** Most requests that one of them may hold with the new one. The least loaded is always within it. */
function loadBound(candidates: readonly Candidate[], loadFactor: number): number {
  const all = candidates.reduce((sum, { load }) => sum + load, 1);
  return (loadFactor * all) / candidates.length + 1;
}

function withRoom(
  need: Float64Array | null,
  workers: readonly KnownWorker[],
  { nowMs, maxAgeMs, loadWeight, bytesOf }: ChoiceOptions,
): Candidate[] {
  const fresh = workers.map(({ summary }) =>
    summary !== null && Math.abs(nowMs - summary.publishedMs) <= maxAgeMs ? summary : null,
  );
  const busiest = Math.max(0, ...fresh.map((summary) => summary?.load ?? 0));
  const neededBytes = missingBytes(need, null, bytesOf);
  return workers.flatMap(({ given = 0 }, worker) => {
    const summary = fresh[worker]!;
    const load = (summary?.load ?? busiest) + given;
    if (summary !== null && load >= summary.capacity) return [];
    const missing = missingBytes(need, summary, bytesOf);
    return [{ worker, load, missing, cost: missing + loadWeight * neededBytes * load }];
  });
}

/** Expected bytes; without a table nothing is missing. A summary of another model tells nothing. */
function missingBytes(
  need: Float64Array | null,
  summary: WorkerSummary | null,
  bytesOf: (id: number) => number,
): number {
  if (need === null) return 0;
  const known = summary?.experts === need.length ? summary : null;
  let bytes = 0;
  for (const [id, chance] of need.entries()) {
    if (chance > 0 && (known === null || !isResident(known, id))) bytes += chance * bytesOf(id);
  }
  return bytes;
}

function least<T>(items: readonly T[], of: (item: T) => number): T[] {
  const smallest = Math.min(...items.map(of));
  return items.filter((item) => of(item) === smallest);
}
