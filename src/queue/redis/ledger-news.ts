/**
 * Signals followers of jobs to read the ledger again: on a message, after a reconnection, and once a second, because
 * Redis may lose messages. A message says only what is new, a status or deltas; the follower reads it from the ledger.
 */
import type { Redis } from 'ioredis';

/** Milliseconds between reads of a follower that gets no message. */
const LOOK_MS = 1_000;
/**
 * Most reads of all followers together in a second that are for deltas: Redis has other work, and this process parses
 * every one.
 */
const MOST_READS = 2_000;

/** `urgent` unless only deltas are new, or nothing is known to be new. */
type Look = (urgent: boolean) => void;

export class LedgerNews {
  readonly #subscriber: Redis;
  readonly #followers = new Map<string, Set<Look>>();
  readonly #timer: NodeJS.Timeout;
  #following = 0;

  constructor(subscriber: Redis) {
    this.#subscriber = subscriber;
    subscriber.on('message', (channel: string, what: string) => {
      for (const look of this.#followers.get(channel) ?? []) look(what !== 'deltas');
    });
    const lookAll = () => {
      for (const looks of this.#followers.values()) for (const look of looks) look(false);
    };
    subscriber.on('ready', () => {
      // ioredis does not resubscribe to channels whose first subscription failed because there was no connection.
      const channels = [...this.#followers.keys()];
      if (channels.length > 0) subscriber.subscribe(...channels).catch(() => undefined);
      lookAll();
    });
    this.#timer = setInterval(lookAll, LOOK_MS).unref();
  }

  /** Milliseconds between two reads of one follower, at least, unless the second is urgent. */
  get gapMs(): number {
    return (1_000 * this.#following) / MOST_READS;
  }

  /**
   * Calls `look` on each signal until the returned function is called. Resolves once messages can arrive, or at once
   * without a connection.
   */
  async follow(channel: string, look: Look): Promise<() => void> {
    const looks = this.#followers.get(channel) ?? new Set();
    looks.add(look);
    this.#following += 1;
    this.#followers.set(channel, looks);
    // Without a connection, the timer still calls the followers.
    if (looks.size === 1) await this.#subscriber.subscribe(channel).catch(() => undefined);
    return () => {
      if (looks.delete(look)) this.#following -= 1;
      if (looks.size > 0 || this.#followers.get(channel) !== looks) return;
      this.#followers.delete(channel);
      this.#subscriber.unsubscribe(channel).catch(() => undefined);
    };
  }

  close(): void {
    clearInterval(this.#timer);
    this.#followers.clear();
  }
}
