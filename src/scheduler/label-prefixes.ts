/** Numbers of the prefixes of labels. */

/** Number of the prefix without tokens. */
export const EMPTY = 0;
const NONE = -1;

/**
 * Numbers the prefixes of token lists. Few prefixes continue in more than one way, so only the second and later ways
 * are in maps: the tree of 65,536 tokens takes a millisecond or two.
 */
export class LabelPrefixes {
  /** By prefix: the token that was the first to follow it, or NONE, and the longer prefix. */
  readonly #token = [NONE];
  readonly #longer = [NONE];
  readonly #others = new Map<number, Map<number, number>>();

  get count(): number {
    return this.#token.length;
  }

  /** Returns the number of each prefix of the list but the empty one, the shortest first. */
  add(tokens: readonly number[]): number[] {
    let prefix = EMPTY;
    return tokens.map((token) => {
      prefix = this.#next(prefix, token);
      return prefix;
    });
  }

  /** Whether some list goes on after the prefix. */
  continues(prefix: number): boolean {
    return this.#token[prefix] !== NONE;
  }

  #next(prefix: number, token: number): number {
    if (this.#token[prefix] === token) return this.#longer[prefix]!;
    if (this.#token[prefix] === NONE) {
      this.#token[prefix] = token;
      this.#longer[prefix] = this.#new();
      return this.#longer[prefix]!;
    }
    const others = this.#others.get(prefix) ?? new Map<number, number>();
    this.#others.set(prefix, others);
    const longer = others.get(token) ?? this.#new();
    others.set(token, longer);
    return longer;
  }

  #new(): number {
    this.#longer.push(NONE);
    return this.#token.push(NONE) - 1;
  }
}
