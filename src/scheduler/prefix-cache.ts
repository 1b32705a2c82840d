/**
 * Keeps the KV pages of finished prompts and answers for later requests that begin with the same tokens. A page's
 * content depends on nothing but the tokens up to its end, so a request that uses it gets the same bits as one that
 * computes it.
 */
import type { Engine } from '../native/addon-types.js';
import { type PageNode, PrefixTree } from './prefix-tree.js';

interface PrefixCacheOptions {
  engine: Pick<Engine, 'forkSequence' | 'sharePages' | 'releaseSequences'>;
  pageTokens: number;
  newId: () => number;
}

export class PrefixCache {
  readonly #options: PrefixCacheOptions;
  readonly #tree: PrefixTree;

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

  /** The last page of the longest kept beginning of `tokens` that leaves a token to compute; null if there is none. */
  find(scope: string, tokens: Int32Array): PageNode | null {
    return this.#tree.find(scope, tokens, Math.floor((tokens.length - 1) / this.#options.pageTokens));
  }

  /** Keeps the page and those before it from being evicted until `leave`. */
  use(node: PageNode): void {
    this.#tree.use(node);
  }

  leave(node: PageNode): void {
    this.#tree.leave(node);
  }

  /**
   * Begins `sequence` with the pages up to `node`, and with the part of a tail behind it that agrees with `tokens`. It
   * copies the tail when it writes. Returns the tokens that it has.
   */
  begin(sequence: number, node: PageNode, tokens: Int32Array): number {
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
    const { engine, pageTokens, newId } = this.#options;
    const pages = Math.floor(tokens.length / pageTokens);
    const known = this.#tree.find(scope, tokens, pages);
    const kept = known?.depth ?? 0;
    if (known !== null) {
      engine.sharePages(sequence, this.#tree.keeperOf(known), kept * pageTokens);
      this.#tree.touch(known);
    }
    const full = tokens.length % pageTokens === 0;
    if (kept === pages && (full || known === null || this.#tree.hasTail(known, tokens))) {
      return { node: known, added: 0 };
    }
    const keeper = newId();
    engine.forkSequence(sequence, keeper, tokens.length);
    const { node, added, freed } = this.#tree.add(scope, tokens, keeper);
    if (freed !== undefined) engine.releaseSequences(Int32Array.of(freed));
    return { node, added };
  }

  /** Evicts unused pages, the least recently used leaves first, until there are `pages` fewer or none is left. */
  evict(pages: number): void {
    const { engine, pageTokens, newId } = this.#options;
    /** The leaves that the keepers of evicted pages still keep. */
    const shortened = new Map<number, PageNode>();
    const released: number[] = [];
    for (const { keeper, parent } of this.#tree.removeLeaves(pages)) {
      shortened.delete(keeper);
      if (parent.keeper === keeper) shortened.set(keeper, parent);
      else released.push(keeper);
    }
    for (const [keeper, leaf] of shortened) {
      const id = newId();
      engine.forkSequence(keeper, id, leaf.depth * pageTokens);
      leaf.keeper = id;
      released.push(keeper);
    }
    if (released.length > 0) engine.releaseSequences(Int32Array.from(released));
  }
}
