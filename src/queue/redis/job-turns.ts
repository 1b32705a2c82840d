/**
 * Priorities of new jobs, so that owners take turns: of each owner, one job has the lowest turn that waits, the next
 * job the turn after it, and so on. A flood of one owner then waits behind the first jobs of the others. This is
 * start-time fair queueing with jobs of equal cost.
 */

/** BullMQ's largest priority. */
const MOST = 2 ** 21 - 1;

interface Waiting {
  owner: string;
  turn: number;
  bytes: number;
  sinceMs: number;
}

export class JobTurns {
  /** Jobs of this process that no worker has taken, as far as it knows. */
  readonly #waiting = new Map<string, Waiting>();
  #bytes = 0;

  /** Bytes of the waiting jobs. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a job and returns its priority. `lowest` is the lowest turn of all waiting jobs; undefined if none waits. */
  add(id: string, owner: string, bytes: number, lowest = 1): number {
    let turn = lowest;
    for (const other of this.#waiting.values()) {
      if (other.owner === owner) turn = Math.max(turn, other.turn + 1);
    }
    turn = Math.min(turn, MOST);
    this.#waiting.set(id, { owner, turn, bytes, sinceMs: performance.now() });
    this.#bytes += bytes;
    return turn;
  }

  /** A worker has taken the job, or it is gone. */
  remove(id: string): void {
    const job = this.#waiting.get(id);
    if (job === undefined) return;
    this.#waiting.delete(id);
    this.#bytes -= job.bytes;
  }

  /** Forgets the jobs added before, in milliseconds of the monotonic clock, because Redis says that none waits. */
  forget(beforeMs: number): void {
    for (const [id, { sinceMs }] of this.#waiting) if (sinceMs < beforeMs) this.remove(id);
  }
}
