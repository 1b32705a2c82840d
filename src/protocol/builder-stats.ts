/** Figures of hash building in shared memory. Each has one thread that writes it. */

/** The hash-building thread counts the ready, failed and abandoned ones and the seconds, the main thread the others. */
const COUNTS = ['ready', 'failed', 'abandoned', 'skipped', 'seconds', 'inputs'] as const;
type Count = (typeof COUNTS)[number];

const USUAL_SECONDS = COUNTS.length;
const PAUSED_UNTIL = USUAL_SECONDS + 1;
const SAVABLE_SECONDS = PAUSED_UNTIL + 1;
const SIZE = SAVABLE_SECONDS + 1;

/** Batches by the final state of their tables, the seconds spent on building, and the inputs of all batches. */
export type BuilderFigures = Record<Count, number>;

/** Weight of the latest batch in the moving averages. */
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

  /** The hash-building thread has ended the tables of a batch. */
  built(state: 'ready' | 'failed' | 'abandoned', seconds: number): void {
    this.add(state, 1);
    this.add('seconds', seconds);
    this.#average(USUAL_SECONDS, seconds);
  }

  /** Seconds that the tables of a batch take, as the latest ones did. 0 before the first. */
  get usualSeconds(): number {
    return this.#values[USUAL_SECONDS]!;
  }

  /** The hash-building thread wants no tables until this time of the clock that all threads share. */
  get pausedUntilMs(): number {
    return this.#values[PAUSED_UNTIL]!;
  }

  set pausedUntilMs(ms: number) {
    this.#values[PAUSED_UNTIL] = ms;
  }

  /** Seconds of a batch that its tables can save at most, as the latest batches were. 0 before the first. */
  get savableSeconds(): number {
    return this.#values[SAVABLE_SECONDS]!;
  }

  /** The inference thread calls it for each batch. A batch that waits for nothing still counts as measured. */
  batchCould(save: number): void {
    this.#average(SAVABLE_SECONDS, Math.max(1e-9, save));
  }

  figures(): BuilderFigures {
    return Object.fromEntries(COUNTS.map((count, i) => [count, this.#values[i]!])) as BuilderFigures;
  }

  #average(at: number, value: number): void {
    const before = this.#values[at]!;
    this.#values[at] = before === 0 ? value : before + LATEST * (value - before);
  }
}
