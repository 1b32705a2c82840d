/** A time limit for a whole bench: work that would not end in time is not started, and running work is stopped. */

export class TimeLimit {
  /** Aborted when the time is over. */
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  #end: number;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  readonly #seen = new Map<string, number>();

  constructor(seconds: number, now: () => number = () => performance.now() / 1000) {
    this.signal = this.#controller.signal;
    this.#now = now;
    this.#end = now() + seconds;
    this.#timer = setTimeout(() => this.end(), Math.max(0, seconds * 1000));
    this.#timer.unref();
  }

  secondsLeft(): number {
    return Math.max(0, this.#end - this.#now());
  }

  get over(): boolean {
    return this.signal.aborted || this.secondsLeft() === 0;
  }

  /** Remembers how long work of a kind took. */
  took(kind: string, seconds: number): void {
    this.#seen.set(kind, Math.max(this.#seen.get(kind) ?? 0, seconds));
  }

  /**
   * The longest time that work of the first known kind took. 0 if none is known: the work is then tried, and stopped at
   * the limit.
   */
  expected(...kinds: readonly string[]): number {
    for (const kind of kinds) {
      const seconds = this.#seen.get(kind);
      if (seconds !== undefined) return seconds;
    }
    return 0;
  }

  /** The reason why work of the first known kind is not started, or undefined if it fits. */
  refusal(...kinds: readonly string[]): string | undefined {
    const left = this.secondsLeft();
    if (this.over) return 'the time is over';
    const expected = this.expected(...kinds);
    return expected <= left
      ? undefined
      : `${Math.floor(left)} s are left, the like of it took ${Math.ceil(expected)} s`;
  }

  /** Now. */
  end(): void {
    this.#end = this.#now();
    this.#controller.abort();
  }

  close(): void {
    clearTimeout(this.#timer);
  }
}
