/** Figures of hash building in shared memory. Each has one thread that writes it. */

/** The hash-building thread counts the ready, failed and abandoned ones and the seconds, the main thread the others. */
const COUNTS = ['ready', 'failed', 'abandoned', 'skipped', 'seconds', 'inputs'] as const;
type Count = (typeof COUNTS)[number];

const PAUSED_UNTIL = COUNTS.length;
const SAVED_SECONDS = PAUSED_UNTIL + 1;
const SAVED_COUNT = SAVED_SECONDS + 1;
const OFF_UNTIL = SAVED_COUNT + 1;
const SIZE = OFF_UNTIL + 1;

/** Batches by the final state of their tables, the seconds spent on building, and the inputs of all batches. */
export type BuilderFigures = Record<Count, number>;

/** Least weight of the latest batch in the moving average. */
const LATEST = 0.1;

export class BuilderStats {
  readonly buffer: SharedArrayBuffer;
  readonly #values: Float64Array;

  constructor(buffer = new SharedArrayBuffer(SIZE * 8)) {
    this.buffer = buffer;
    this.#values = new Float64Array(buffer);
  }

  add(count: Count, amount: number): void {
    this.#values[COUNTS.indexOf(count)]! += amount;
  }

  /** Batches whose tables the hash-building thread has ended. */
  get ended(): number {
    const [ready, failed, abandoned] = this.#values;
    return ready! + failed! + abandoned!;
  }

  /** The hash-building thread wants no tables until this time of the clock that all threads share. */
  get pausedUntilMs(): number {
    return this.#values[PAUSED_UNTIL]!;
  }

  set pausedUntilMs(ms: number) {
    this.#values[PAUSED_UNTIL] = ms;
  }

  /** Prediction is switched off until this time of the clock that all threads share. The inference thread sets it. */
  get offUntilMs(): number {
    return this.#values[OFF_UNTIL]!;
  }

  set offUntilMs(ms: number) {
    this.#values[OFF_UNTIL] = ms;
  }

  /** Seconds that tables saved their batches, as the latest ones did. Infinite before the first. */
  get savedSeconds(): number {
    return this.#values[SAVED_COUNT]! > 0 ? this.#values[SAVED_SECONDS]! : Number.POSITIVE_INFINITY;
  }

  /** The inference thread calls it for each batch whose tables were used. */
  batchSaved(seconds: number): void {
    const count = ++this.#values[SAVED_COUNT]!;
    this.#values[SAVED_SECONDS]! += Math.max(LATEST, 1 / count) * (seconds - this.#values[SAVED_SECONDS]!);
  }

  figures(): BuilderFigures {
    return Object.fromEntries(COUNTS.map((count, i) => [count, this.#values[i]!])) as BuilderFigures;
  }
}
