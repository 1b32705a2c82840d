/** Counts the KV pages of running requests before a pass is run, so that no pass fails because the cache is full. */
import {
  type KvRoom,
  type PageNeed,
  pagesOf,
  RECURRENT,
  type WindowNeed,
  WindowPages,
  windowSizes,
} from './page-need.js';
import type { PrefixCache } from './prefix-cache.js';
import type { PageNode } from './prefix-tree.js';

/** The pages of one running request. */
export interface PageLease {
  /** Pages that only its sequences hold, or may come to hold. */
  own: number;
  /** Its sequence takes more pages as it grows. When none is left, it gives way to older requests. */
  readonly grows: boolean;
  windows: readonly WindowNeed[];
  /** The last page of its prompt that the prefix cache keeps; null if there is none. */
  node: PageNode | null;
}

interface LeaseOptions {
  node?: PageNode | null;
  grows?: boolean;
  /** Called once it is sure that the request gets its pages, before any is evicted for it. */
  begin?: () => void;
}

/** What the prefix cache may keep of a request. `scope` separates requests that must not share pages. */
interface KeptTokens {
  scope: string;
  tokens: Int32Array;
}

export class PageLeases {
  readonly room: KvRoom;
  /** Null if nothing is kept. */
  readonly cache: PrefixCache | null;
  readonly #windows: WindowPages[];
  /** Of recurrent layers; -1 if there are none. */
  readonly #states: number;
  #own = 0;
  /** Leases that grow. */
  #growing = 0;

  constructor(room: KvRoom, cache: PrefixCache | null = null) {
    this.room = room;
    this.cache = cache;
    this.#windows = room.kvWindows.map((layers) => new WindowPages(layers.pages, windowSizes(layers, room)));
    this.#states = room.kvWindows.findIndex(({ window }) => window === RECURRENT);
  }

  get total(): number {
    return this.room.kvPages;
  }

  /** Pages that hold nothing. */
  get free(): number {
    return this.total - this.#own - (this.cache?.pages ?? 0);
  }

  /** Pages that a running request could get: those that are free, and those that can be evicted. */
  get available(): number {
    return this.free + (this.cache?.unused ?? 0);
  }

  /**
   * The pages up to `node` need not be computed again. Returns undefined if fewer pages are available, or if requests
   * that grow could not take a page each any more: one of them would soon have to give way.
   */
  lease(
    { pages, windows }: PageNeed,
    { node = null, grows = false, begin = () => {} }: LeaseOptions = {},
  ): PageLease | undefined {
    if (node !== null) this.cache!.use(node);
    const own = pages - (node?.depth ?? 0);
    const fits = own + this.#growing <= this.available;
    if (!fits || !this.#windows.every((layers, i) => layers.fits(windows[i]!))) {
      if (node !== null) this.cache!.leave(node);
      return undefined;
    }
    begin();
    this.#take(own);
    if (grows) this.#growing += 1;
    this.#windows.forEach((layers, i) => {
      layers.add(windows[i]!, 1);
    });
    this.#evictStates(this.freeStates);
    return { own, windows, node, grows };
  }

  /** Takes the pages that a growing sequence of `tokens` tokens lacks. Returns false if they are not available. */
  cover(lease: PageLease, tokens: number): boolean {
    const held = lease.own + (lease.node?.depth ?? 0);
    const more = Math.max(0, pagesOf(tokens, this.room.kvPageTokens) - held);
    if (more > this.available) return false;
    this.#take(more);
    lease.own += more;
    return true;
  }

  end(lease: PageLease): void {
    if (lease.grows) this.#growing -= 1;
    this.#give(lease.own);
    lease.own = 0;
    if (lease.node !== null) this.cache!.leave(lease.node);
    lease.node = null;
    this.#windows.forEach((layers, i) => {
      layers.add(lease.windows[i]!, -1);
    });
  }

  /** Recurrent states that no running request needs. The prefix cache may keep as many. */
  get freeStates(): number {
    return this.#windows[this.#states]?.free ?? 0;
  }

  /** Keeps the recurrent state of a sequence that has run `tokens`, whole pages, and goes on. */
  keepState(lease: PageLease, kept: KeptTokens, sequence: number): void {
    this.keepRunning(lease, kept, sequence);
    if (this.freeStates === 0) return;
    this.#evictStates(this.freeStates - 1);
    this.cache!.keepState(kept.scope, kept.tokens, sequence);
  }

  /** Keeps the full pages of a sequence that has run `tokens`, and which goes on using them. */
  keepRunning(lease: PageLease, { scope, tokens }: KeptTokens, sequence: number): void {
    const before = lease.node?.depth ?? 0;
    const { kvPageTokens } = this.room;
    const full = Math.floor(tokens.length / kvPageTokens);
    if (full <= before) return;
    const { node } = this.cache!.keep(scope, tokens.subarray(0, full * kvPageTokens), sequence);
    if (node === null) return;
    // The pages are the cache's now, whether they were added or replaced by pages with the same content.
    this.#disown(lease, node.depth - before);
    this.cache!.use(node);
    if (lease.node !== null) this.cache!.leave(lease.node);
    lease.node = node;
  }

  /** Keeps the pages of a sequence that ends, and that has run more than what is kept of its request. */
  keepEnded(lease: PageLease, { scope, tokens }: KeptTokens, sequence: number): void {
    this.#disown(lease, this.cache!.keep(scope, tokens, sequence).added);
    if (this.#states < 0 || !this.cache!.keepState(scope, tokens, sequence)) return;
    // The state is the cache's now.
    const one = { alone: 1, beside: 1 };
    this.#windows[this.#states]!.add(one, -1);
    lease.windows = lease.windows.map(({ alone, beside }, i) =>
      i === this.#states ? { alone: alone - 1, beside: beside - 1 } : { alone, beside },
    );
  }

  #evictStates(left: number): void {
    while ((this.cache?.states ?? 0) > left) this.cache!.evictState();
  }

  #take(pages: number): void {
    if (pages > this.free) this.cache?.evict(pages - this.free);
    this.#own += pages;
  }

  #disown(lease: PageLease, pages: number): void {
    lease.own -= pages;
    this.#give(pages);
    if (lease.own < 0) throw new Error(`A request gave up ${-lease.own} KV pages too many. This is a bug.`);
  }

  #give(pages: number): void {
    this.#own -= pages;
    if (this.#own < 0) throw new Error(`${-this.#own} KV pages too many were given back. This is a bug.`);
  }
}
