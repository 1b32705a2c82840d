/**
 * Signals followers of jobs to read the ledger again: on a message, after a reconnection, and once a second, because
 * Redis may lose messages. A message carries no data; the follower reads the change from the ledger.
 */
import type { Redis } from 'ioredis';

/** Milliseconds between reads of a follower that gets no message. */
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
      // ioredis does not resubscribe to channels whose first subscription failed because there was no connection.
      const channels = [...this.#followers.keys()];
      if (channels.length > 0) subscriber.subscribe(...channels).catch(() => undefined);
      lookAll();
    });
    this.#timer = setInterval(lookAll, LOOK_MS).unref();
  }

  /**
   * Calls `look` on each signal until the returned function is called. Resolves once messages can arrive, or at once
   * without a connection.
   */
  async follow(channel: string, look: () => void): Promise<() => void> {
    const looks = this.#followers.get(channel) ?? new Set();
    looks.add(look);
    this.#followers.set(channel, looks);
    // Without a connection, the timer still calls the followers.
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
