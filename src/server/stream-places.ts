/** Bounds the event streams of kept jobs. A stream costs a connection, and its reader may stay as long as the job. */
import { SidaError } from '../errors.js';
import { LIMITS } from './limits.js';

export class StreamPlaces {
  readonly #open = new Map<string, number>();

  /** Takes a place for a stream, and returns the function that frees it; call that once. Throws too_many_streams. */
  take(owner: string): () => void {
    const streams = this.#open.get(owner) ?? 0;
    const limit = LIMITS.streamsOfOwner;
    if (streams >= limit) {
      const message = `This key or address has ${streams} event streams open, and the limit is ${limit}; close one, or ask for the job itself`;
      throw new SidaError({ code: 'too_many_streams', message, details: { streams, limit } });
    }
    this.#open.set(owner, streams + 1);
    return () => {
      const left = this.#open.get(owner)! - 1;
      if (left > 0) this.#open.set(owner, left);
      else this.#open.delete(owner);
    };
  }
}
