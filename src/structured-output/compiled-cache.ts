/** Keeps the results of the last grammars by their text. */

interface CacheLimits {
  count: number;
  /** Of the texts. */
  bytes: number;
}

export class CompiledCache<Compiled> {
  readonly #limits: CacheLimits;
  readonly #dropped: (compiled: Compiled) => void;
  /** The least recently used first. */
  readonly #kept = new Map<string, Compiled>();
  #bytes = 0;

  /** `dropped` is called with what leaves the cache. */
  constructor(limits: CacheLimits, dropped: (compiled: Compiled) => void = () => undefined) {
    this.#limits = limits;
    this.#dropped = dropped;
  }

  get size(): number {
    return this.#kept.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(grammar: string): Compiled | undefined {
    const found = this.#kept.get(grammar);
    if (found === undefined) return undefined;
    this.#kept.delete(grammar);
    this.#kept.set(grammar, found);
    return found;
  }

  /** The newest always stays, however large it is. */
  set(grammar: string, compiled: Compiled): void {
    this.#drop(grammar);
    this.#kept.set(grammar, compiled);
    this.#bytes += Buffer.byteLength(grammar);
    const { count, bytes } = this.#limits;
    for (const oldest of this.#kept.keys()) {
      if ((this.#kept.size <= count && this.#bytes <= bytes) || oldest === grammar) break;
      this.#drop(oldest);
    }
  }

  /** Removes what `drops` returns true for. */
  remove(drops: (compiled: Compiled) => boolean): void {
    for (const [grammar, compiled] of this.#kept) if (drops(compiled)) this.#drop(grammar);
  }

  #drop(grammar: string): void {
    const compiled = this.#kept.get(grammar);
    if (compiled === undefined) return;
    this.#kept.delete(grammar);
    this.#bytes -= Buffer.byteLength(grammar);
    this.#dropped(compiled);
  }
}
