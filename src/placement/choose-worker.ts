/** Who gets a request: the worker that already holds its experts, unless it has more than its part of the work. */
import { isResident, type WorkerSummary } from './worker-summary.js';

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
  /** Bytes of an expert by flat id. */
  bytesOf: (id: number) => number;
  /** Counts the choices: those who are alike take turns. */
  turn: number;
}

export interface WorkerChoice {
  /** Index of the worker. */
  worker: number;
  /** Bytes that it is expected to load for the request; null: there is no table. */
  missingBytes: number | null;
  /** What told it from the others that the bound admits. */
  by: 'experts' | 'load' | 'turn';
}

interface Candidate {
  worker: number;
  load: number;
  missing: number;
}

/**
 * Of the workers with room, and within the bound, the one whose missing experts have the fewest bytes; then the least
 * loaded; then the next in turn. An unknown worker counts as empty of experts and as busy as the busiest known one.
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
  const nearest = least(admitted, ({ missing }) => missing);
  const idlest = least(nearest, ({ load }) => load);
  const first = options.turn % Math.max(1, workers.length);
  const chosen = idlest.find(({ worker }) => worker >= first) ?? idlest[0];
  if (chosen === undefined) return undefined;
  return {
    worker: chosen.worker,
    missingBytes: need === null ? null : chosen.missing,
    by: nearest.length < admitted.length ? 'experts' : idlest.length < nearest.length ? 'load' : 'turn',
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
  { nowMs, maxAgeMs, bytesOf }: ChoiceOptions,
): Candidate[] {
  const fresh = workers.map(({ summary }) =>
    summary !== null && Math.abs(nowMs - summary.publishedMs) <= maxAgeMs ? summary : null,
  );
  const busiest = Math.max(0, ...fresh.map((summary) => summary?.load ?? 0));
  return workers.flatMap(({ given = 0 }, worker) => {
    const summary = fresh[worker]!;
    const load = (summary?.load ?? busiest) + given;
    if (summary !== null && load >= summary.capacity) return [];
    return [{ worker, load, missing: need === null ? 0 : missingBytes(need, summary, bytesOf) }];
  });
}

/** Expected bytes. A summary of another model tells nothing. */
function missingBytes(
  need: Float64Array,
  summary: WorkerSummary | null,
  bytesOf: (id: number) => number,
): number {
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
