/**
 * Keeps the KV pages of finished prompts and answers for later requests that begin with the same tokens. A page's
 * content depends on nothing but the tokens up to its end, so a request that uses it gets the same bits as one that
 * computes it. Where layers are recurrent, a request goes on from a state that is kept with the pages before it.
 */
import type { Engine } from '../native/addon-types.js';
import { type KeptState, KeptStates } from './kept-states.js';
import { isTail, type PageNode, PrefixTree, type RemovedLeaf } from './prefix-tree.js';

interface PrefixCacheOptions {
  engine: Pick<Engine, 'forkSequence' | 'keepPages' | 'sharePages' | 'releaseSequences'>;
  pageTokens: number;
  /** Whether layers are recurrent. */
  recurrent: boolean;
  newId: () => number;
}

/** A kept beginning of a request's tokens. */
export interface KeptPrefix {
  /** Its last full page. */
  node: PageNode;
  /** Where layers are recurrent. */
  state?: KeptState;
}

/** A state is not worth a pass that ends for it if it spares fewer pages than this. */
const LEAST_PAGES = 4;

/** Most tokens by which chat templates invite an answer. The next turn may lack them. */
const INVITATION_TOKENS = 8;

export class PrefixCache {
  readonly #options: PrefixCacheOptions;
  readonly #tree: PrefixTree;
  readonly #states = new KeptStates();

  constructor(options: PrefixCacheOptions) {
    this.#options = options;
    this.#tree = new PrefixTree(options.pageTokens);
  }

  /** Pages kept, those included that running requests use. */
  get pages(): number {
    return this.#tree.pages;
  }

  /** Of them, pages that can be evicted. */
  get unused(): number {
    return this.#tree.unused;
  }

  /** Recurrent states kept. */
  get states(): number {
    return this.#states.count;
  }

  /** The longest kept beginning of `tokens` that leaves a token to compute; null if there is none. */
  find(scope: string, tokens: Int32Array): KeptPrefix | null {
    if (!this.#options.recurrent) {
      const node = this.#pagesOf(scope, tokens);
      return node && { node };
    }
    const state = this.#states.find(scope, tokens);
    return state === undefined ? null : { node: isTail(state.page) ? state.page.parent! : state.page, state };
  }

  /**
   * Numbers of tokens behind which a prompt's states are worth keeping, each the end of a page: where the prompt leaves
   * what earlier requests computed, and near its end if an answer follows, as the next turn may lack the last tokens.
   */
  cuts(scope: string, tokens: Int32Array, begun: number, answered: boolean): number[] {
    const { pageTokens, recurrent } = this.#options;
    if (!recurrent) return [];
    const shared = (this.#pagesOf(scope, tokens)?.depth ?? 0) * pageTokens;
    const last = answered ? Math.floor((tokens.length - INVITATION_TOKENS) / pageTokens) * pageTokens : 0;
    let before = begun;
    return [shared, last].filter((cut) => {
      if (cut - before < LEAST_PAGES * pageTokens) return false;
      before = cut;
      return true;
    });
  }

  /** Keeps the page and those before it from being evicted until `leave`. */
  use(node: PageNode): void {
    this.#tree.use(node);
  }

  leave(node: PageNode): void {
    this.#tree.leave(node);
  }

  /**
   * Begins `sequence` with the pages of a prefix, and with the part of a tail behind it that agrees with `tokens`. It
   * copies the tail, and a state, when it writes. Returns the tokens that it has.
   */
  begin(sequence: number, { node, state }: KeptPrefix, tokens: Int32Array): number {
    if (state !== undefined) {
      this.#states.use(state.page);
      this.#tree.touch(state.page);
      this.#options.engine.forkSequence(state.sequence, sequence, state.tokens.length);
      return state.tokens.length;
    }
    const { tail, shared } = this.#tree.tailOf(node, tokens);
    if (tail !== null) this.#tree.touch(tail);
    const begun = node.depth * this.#options.pageTokens + shared;
    this.#options.engine.forkSequence(this.#tree.keeperOf(tail ?? node), sequence, begun);
    return begun;
  }

  /**
   * Keeps the pages of `sequence`, whose tokens are `tokens`. Full pages that are kept already replace the sequence's
   * own. Returns the last full page, and how many pages were added.
   */
  keep(scope: string, tokens: Int32Array, sequence: number): { node: PageNode | null; added: number } {
    const { engine, pageTokens, recurrent, newId } = this.#options;
    const pages = Math.floor(tokens.length / pageTokens);
    if (recurrent && pages === 0) return { node: null, added: 0 };
    const known = this.#tree.find(scope, tokens, pages);
    const kept = known?.depth ?? 0;
    if (known !== null) {
      engine.sharePages(sequence, this.#tree.keeperOf(known), kept * pageTokens);
      this.#tree.touch(known);
    }
    if (kept === pages && (known === null || this.#tree.lastOf(known, tokens) !== undefined)) {
      return { node: known, added: 0 };
    }
    const keeper = newId();
    engine.keepPages(sequence, keeper, tokens.length);
    const { node, added, freed } = this.#tree.add(scope, tokens, keeper);
    if (freed !== undefined) engine.releaseSequences(Int32Array.of(freed));
    return { node, added };
  }

  /**
   * Keeps the recurrent state of `sequence`, which is behind `tokens` and whose pages are kept. Returns false if it was
   * kept already, or if there is no full page.
   */
  keepState(scope: string, tokens: Int32Array, sequence: number): boolean {
    const { engine, pageTokens, newId } = this.#options;
    const node = this.#tree.find(scope, tokens, Math.floor(tokens.length / pageTokens));
    const page = node === null ? undefined : this.#tree.lastOf(node, tokens);
    if (page === undefined || this.#states.use(page)) return false;
    const keeper = newId();
    engine.forkSequence(sequence, keeper, tokens.length);
    this.#states.add({ page, scope, tokens: tokens.slice(), sequence: keeper });
    return true;
  }

  /** Gives up the least recently used state, and its last page if that is not full: no other state needs it. */
  evictState(): void {
    const { page, sequence } = this.#states.oldest!;
    this.#states.remove(page);
    const removed = isTail(page) ? [this.#tree.remove(page)] : [];
    this.#release(removed, [sequence]);
  }

  /** Evicts unused pages, the least recently used leaves first, until there are `pages` fewer or none is left. */
  evict(pages: number): void {
    const removed = this.#tree.removeLeaves(pages);
    const states = removed.flatMap(({ page }) => this.#states.remove(page)?.sequence ?? []);
    this.#release(removed, states);
  }

  /** The last page of the longest known beginning of `tokens` that leaves a token to compute. */
  #pagesOf(scope: string, tokens: Int32Array): PageNode | null {
    return this.#tree.find(scope, tokens, Math.floor((tokens.length - 1) / this.#options.pageTokens));
  }

  #release(removed: readonly RemovedLeaf[], released: number[]): void {
    const { engine, pageTokens, newId } = this.#options;
    /** The leaves that the keepers of evicted pages still keep. */
    const shortened = new Map<number, PageNode>();
    for (const { keeper, parent } of removed) {
      shortened.delete(keeper);
      if (parent.keeper === keeper) shortened.set(keeper, parent);
      else released.push(keeper);
    }
    for (const [keeper, leaf] of shortened) {
      const id = newId();
      engine.keepPages(keeper, id, leaf.depth * pageTokens);
      leaf.keeper = id;
      released.push(keeper);
    }
    if (released.length > 0) engine.releaseSequences(Int32Array.from(released));
  }
}
