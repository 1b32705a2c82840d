/**
 * Recurrent states that are kept for later requests. Unlike a page, which serves every beginning of its tokens, a state
 * serves only requests that begin with all tokens before it.
 */
import type { PageNode } from './prefix-tree.js';

export interface KeptState {
  /** The last page of its tokens. It need not be full. */
  readonly page: PageNode;
  readonly scope: string;
  readonly tokens: Int32Array;
  /** The sequence that keeps it. */
  readonly sequence: number;
}

export class KeptStates {
  /** The least recently used first. */
  readonly #states = new Map<PageNode, KeptState>();

  get count(): number {
    return this.#states.size;
  }

  /** The state behind the longest beginning of `tokens` that leaves a token to compute. */
  find(scope: string, tokens: Int32Array): KeptState | undefined {
    let longest: KeptState | undefined;
    for (const state of this.#states.values()) {
      if (state.scope !== scope || state.tokens.length >= tokens.length) continue;
      if (longest !== undefined && state.tokens.length <= longest.tokens.length) continue;
      // From the end: conversations that begin alike differ there.
      if (state.tokens.findLastIndex((id, at) => id !== tokens[at]) < 0) longest = state;
    }
    return longest;
  }

  add(state: KeptState): void {
    this.#states.set(state.page, state);
  }

  /** Whether the page has a state, which counts as used then. */
  use(page: PageNode): boolean {
    const state = this.remove(page);
    if (state !== undefined) this.add(state);
    return state !== undefined;
  }

  get oldest(): KeptState | undefined {
    return this.#states.values().next().value;
  }

  remove(page: PageNode): KeptState | undefined {
    const state = this.#states.get(page);
    this.#states.delete(page);
    return state;
  }
}
