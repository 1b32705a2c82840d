/** Measured times of answers and tokens, from which each window makes one ratio: measured over target. */

export const TIMES = ['answer', 'firstToken', 'token'] as const;
export type TimeKind = (typeof TIMES)[number];

/** Milliseconds. Undefined is no target. Answers and first tokens are compared by p95, tokens by their mean. */
export type Targets = Partial<Record<TimeKind, number | undefined>>;

/** A window ends after `least` with `many` times of each kind, or after `most` with a few. */
const WINDOW_MS = { least: 1_000, most: 2_500 };
const TIMES_OF_A_WINDOW = { many: 40, few: 5 };

export class TargetWindow {
  readonly #targets: Targets;
  readonly #times: Record<TimeKind, number[]> = { answer: [], firstToken: [], token: [] };
  /** Since when the budget is held, and since when the window is open. */
  #heldMs = 0;
  #openedMs = 0;

  constructor(targets: Targets) {
    this.#targets = targets;
  }

  get hasTarget(): boolean {
    return TIMES.some((kind) => this.#targets[kind] !== undefined);
  }

  /**
   * A time that ends now. One that began with another budget does not count. One that was cut short, because its client
   * left or its deadline passed, counts if it had missed the target by then.
   */
  add(kind: TimeKind, ms: number, nowMs: number, cut = false): void {
    const target = this.#targets[kind];
    if (target === undefined || nowMs - ms < this.#heldMs || (cut && ms <= target)) return;
    this.#times[kind].push(ms);
  }

  /** Another budget is held from now on. */
  begin(nowMs: number): void {
    this.#heldMs = nowMs;
    this.#open(nowMs);
  }

  #open(nowMs: number): void {
    for (const kind of TIMES) this.#times[kind] = [];
    this.#openedMs = nowMs;
  }

  /** The largest ratio of the targets, and a new window. Undefined while the window is not over. */
  take(nowMs: number): number | undefined {
    const asked = TIMES.filter((kind) => this.#targets[kind] !== undefined);
    const have = (least: number) => asked.filter((kind) => this.#times[kind].length >= least);
    const few = have(TIMES_OF_A_WINDOW.few);
    const passed = nowMs - this.#openedMs;
    const over =
      passed >= WINDOW_MS.most ||
      (passed >= WINDOW_MS.least && have(TIMES_OF_A_WINDOW.many).length === asked.length);
    if (!over || few.length === 0) return undefined;
    const ratios = few.map((kind) => {
      const times = this.#times[kind];
      return (kind === 'token' ? mean(times) : p95(times)) / this.#targets[kind]!;
    });
    this.#open(nowMs);
    return Math.max(...ratios);
  }
}

function mean(times: readonly number[]): number {
  return times.reduce((sum, each) => sum + each, 0) / times.length;
}

function p95(times: readonly number[]): number {
  return [...times].sort((a, b) => a - b)[Math.ceil(0.95 * times.length) - 1]!;
}
