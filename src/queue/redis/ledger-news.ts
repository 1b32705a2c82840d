/**
 * Tells followers of jobs when to look into the ledger again: on a message, after a reconnection, and now and then in any
 * case, since messages of Redis may be lost. A message says only that there is something new; what, stands in the ledger.
 */
import type { Redis } from 'ioredis';

/** Between looks of a follower that was told nothing. */
const LOOK_MS = 1_000;

export class LedgerNews {
  readonly #subscriber: Redis;
  readonly #followers = new Map<string, Set<() => void>>();
  readonly #timer: NodeJS.Timeout;

  constructor(subscriber: Redis) {
    this.#subscriber = subscriber;
    subscriber.on('message', (channel: string) => {
      for (const look of this.#followers.get(channel) ?? []) look();
    });
    const lookAll = () => {
      for (const looks of this.#followers.values()) for (const look of looks) look();
    };
    subscriber.on('ready', () => {
      // Those that were not subscribed to before, for want of a connection, are not subscribed to again by themselves.
      const channels = [...this.#followers.keys()];
      if (channels.length > 0) subscriber.subscribe(...channels).catch(() => undefined);
      lookAll();
    });
    this.#timer = setInterval(lookAll, LOOK_MS).unref();
  }

  /** Resolves once messages arrive, or cannot for now; `look` is called until the returned function is. */
  async follow(channel: string, look: () => void): Promise<() => void> {
    const looks = this.#followers.get(channel) ?? new Set();
    looks.add(look);
    this.#followers.set(channel, looks);
    // Without a connection the looks now and then do.
    if (looks.size === 1) await this.#subscriber.subscribe(channel).catch(() => undefined);
    return () => {
      looks.delete(look);
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
