/** Grammars that wait for a thread. Owners take turns, and each has its grammars compiled one after the other. */

export interface WaitingGrammar {
  grammar: string;
  /** Names the key that sent the request. Without keys it is empty, and no turns are taken. */
  owner: string;
}

export class GrammarTurns<Waiting extends WaitingGrammar> {
  /** In the order of the owners' turns: a new owner goes last, and an owner of which a grammar was taken. */
  readonly #owners = new Map<string, Waiting[]>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Grammars of the owner that wait. */
  of(owner: string): number {
    return this.#owners.get(owner)?.length ?? 0;
  }

  add(waiting: Waiting): void {
    const own = this.#owners.get(waiting.owner);
    if (own === undefined) this.#owners.set(waiting.owner, [waiting]);
    else own.push(waiting);
    this.#count += 1;
  }

  remove(waiting: Waiting): void {
    const own = this.#owners.get(waiting.owner) ?? [];
    const at = own.indexOf(waiting);
    if (at < 0) return;
    own.splice(at, 1);
    this.#count -= 1;
    if (own.length === 0) this.#owners.delete(waiting.owner);
  }

  /**
   * Removes the next grammar that may be compiled beside `compiling`. A key never has two threads, so that the other
   * is soon free for other keys. A grammar that is being compiled waits for the outcome.
   */
  take(compiling: readonly WaitingGrammar[]): Waiting | undefined {
    for (const [owner, own] of this.#owners) {
      if (owner !== '' && compiling.some((other) => other.owner === owner)) continue;
      const next = own.find(({ grammar }) => compiling.every((other) => other.grammar !== grammar));
      if (next === undefined) continue;
      this.remove(next);
      if (own.length > 0) {
        this.#owners.delete(owner);
        this.#owners.set(owner, own);
      }
      return next;
    }
    return undefined;
  }
}
