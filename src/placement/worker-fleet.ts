/** Requests over several simulated workers: what a way of choosing among them moves, and how long it takes. */
import { chooseWorker, type KnownWorker } from './choose-worker.js';
import { type SimulatedRequest, SimulatedWorker, type WorkerOptions } from './simulated-worker.js';

export const CHOICES = ['round-robin', 'least-loaded', 'expert-aware'] as const;
/** `chooseWorker` without summaries, without needs, and with both. */
export type Choice = (typeof CHOICES)[number];

export interface FleetOptions extends WorkerOptions {
  workers: number;
  choice: Choice;
  /** Clients, each with one request at a time. */
  clients: number;
  loadFactor: number;
  loadWeight: number;
}

export interface FleetReport {
  requests: number;
  loads: number;
  /** Requests that each worker got. */
  given: number[];
  /** Until the last request ended. */
  endMs: number;
  /** Of a request, from its arrival. */
  meanMs: number;
  p99Ms: number;
  /** Choices by what was resident. */
  byExperts: number;
}

export function runFleet(requests: readonly SimulatedRequest[], options: FleetOptions): FleetReport {
  const { clients, choice, loadFactor, loadWeight } = options;
  const workers = Array.from({ length: options.workers }, (_, i) => new SimulatedWorker(String(i), options));
  const known = (worker: SimulatedWorker): KnownWorker =>
    choice === 'round-robin' ? { summary: null } : worker.known;
  const given = workers.map(() => 0);
  const took: number[] = [];
  let [loads, nowMs, byExperts, turn] = [0, 0, 0, 0];
  const admit = (request: SimulatedRequest) => {
    const need = choice === 'expert-aware' ? request.need : null;
    const chosen = chooseWorker(need, workers.map(known), {
      nowMs,
      maxAgeMs: Number.POSITIVE_INFINITY,
      loadFactor,
      loadWeight,
      bytesOf: () => 1,
      turn: turn++,
    })!;
    if (chosen.by === 'experts') byExperts += 1;
    given[chosen.worker]! += 1;
    workers[chosen.worker]!.give(request, nowMs);
  };
  for (const request of requests.slice(0, clients)) admit(request);
  while (took.length < requests.length) {
    const worker = workers.reduce((first, other) => (other.nextEndMs < first.nextEndMs ? other : first));
    nowMs = worker.nextEndMs;
    const ended = worker.end();
    took.push(ended.tookMs);
    loads += ended.loads;
    const next = requests[took.length + clients - 1];
    if (next !== undefined) admit(next);
  }
  const sorted = took.sort((a, b) => a - b);
  return {
    requests: requests.length,
    loads,
    given,
    endMs: nowMs,
    meanMs: took.reduce((sum, ms) => sum + ms, 0) / took.length,
    p99Ms: sorted[Math.min(sorted.length - 1, Math.floor(0.99 * sorted.length))]!,
    byExperts,
  };
}
