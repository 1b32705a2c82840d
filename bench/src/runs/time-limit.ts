/** A time limit for a whole bench: running work is stopped when it is over, and what takes longer is not begun. */

export class TimeLimit {
  /** Aborted when the time is over. */
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #end: number;
  readonly #timer: NodeJS.Timeout;
  /** Seconds that work took, by kind. */
  readonly #seen = new Map<string, number>();

  constructor(seconds: number) {
    this.signal = this.#controller.signal;
    this.#end = performance.now() / 1000 + seconds;
    this.#timer = setTimeout(() => this.end(), seconds * 1000);
    this.#timer.unref();
  }

  get over(): boolean {
    return this.signal.aborted;
  }

  took(kind: string, seconds: number): void {
    this.#seen.set(kind, Math.max(this.#seen.get(kind) ?? 0, seconds));
  }

  /** The reason why work of a kind is not started, or undefined: of an unknown kind it is tried. */
  refusal(kind: string): string | undefined {
    if (this.over) return 'the time is over';
    const left = this.#end - performance.now() / 1000;
    const expected = this.#seen.get(kind) ?? 0;
    return expected <= left ? undefined : `${Math.floor(left)} s are left, the like of it took ${expected} s`;
  }

  /** Now. */
  end(): void {
    clearTimeout(this.#timer);
    this.#controller.abort();
  }
}
