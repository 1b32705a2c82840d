/** The inputs that gave their KV pages to older ones, each with the tokens that it must be fed again. */
import type { RunningInput } from '../running-input.js';
import type { Feed } from './feed.js';

export class SuspendedFeeds {
  /** In the order in which the inputs started. */
  readonly #feeds: Feed[] = [];

  add(feed: Feed): void {
    const before = this.#feeds.findLastIndex(({ input }) => input.order < feed.input.order);
    this.#feeds.splice(before + 1, 0, feed);
  }

  /** The owner of the oldest feed first. */
  get owners(): Set<string> {
    return new Set(this.#feeds.map(({ input }) => input.owner));
  }

  /** Removes the owner's oldest feed if `resume` returns true, and returns it. */
  take(owner: string, resume: (feed: Feed) => boolean): Feed | undefined {
    const at = this.#feeds.findIndex(({ input }) => input.owner === owner);
    if (at < 0 || !resume(this.#feeds[at]!)) return undefined;
    return this.#feeds.splice(at, 1)[0];
  }

  /** Removes the feeds whose input `drops` returns true for, and returns them. */
  drop(drops: (input: RunningInput) => boolean): Feed[] {
    const dropped = this.#feeds.filter(({ input }) => drops(input));
    for (const feed of dropped) this.#feeds.splice(this.#feeds.indexOf(feed), 1);
    return dropped;
  }
}
