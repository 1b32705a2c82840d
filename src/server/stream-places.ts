/** Bounds the event streams of kept jobs. A stream costs a connection, and its reader may stay as long as the job. */
import { SidaError } from '../errors.js';
import { LIMITS } from './limits.js';

export class StreamPlaces {
  readonly #ofJob = new Map<string, number>();
  readonly #ofOwner = new Map<string, number>();
  #missedBytes = 0;

  /** Takes a place for a stream, and returns the function that frees it; call that once. Throws too_many_streams. */
  take(job: string, owner: string): () => void {
    check(this.#ofJob.get(job), LIMITS.streamsOfJob, 'This job');
    check(this.#ofOwner.get(owner), LIMITS.streamsOfOwner, 'This key or address');
    add(this.#ofJob, job, 1);
    add(this.#ofOwner, owner, 1);
    return () => {
      add(this.#ofJob, job, -1);
      add(this.#ofOwner, owner, -1);
    };
  }

  /** Counts bytes that a late reader still has to take. Returns false if all have too many together. */
  hold(bytes: number): boolean {
    this.#missedBytes += bytes;
    return this.#missedBytes <= LIMITS.missedBytes;
  }

  release(bytes: number): void {
    this.#missedBytes -= bytes;
  }
}

function check(held: number | undefined = 0, limit: number, what: string): void {
  if (held < limit) return;
  throw new SidaError({
    code: 'too_many_streams',
    message: `${what} has ${held} event streams open, and the limit is ${limit}; close one, or ask for the job itself`,
    details: { streams: held, limit },
  });
}

function add(counts: Map<string, number>, name: string, change: number): void {
  const count = (counts.get(name) ?? 0) + change;
  if (count > 0) counts.set(name, count);
  else counts.delete(name);
}
