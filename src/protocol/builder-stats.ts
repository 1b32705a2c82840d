/**
 * Figures of hash building in shared memory. The hash-building thread writes them, but for the inputs, which the main
 * thread counts, and for what a table can save, which the inference thread measures.
 */

const FIELDS = ['ready', 'failed', 'abandoned', 'skipped', 'seconds', 'inputs'] as const;
type Field = (typeof FIELDS)[number];

/** Batches by the final state of their tables, the seconds spent on building, and the inputs of all batches. */
export type BuilderFigures = Record<Field, number>;

/** Weight of the latest batch in the moving average of what a table can save. */
const LATEST = 0.1;

export class BuilderStats {
  readonly buffer: SharedArrayBuffer;
  readonly #values: Float64Array;

  constructor(buffer = new SharedArrayBuffer((FIELDS.length + 1) * 8)) {
    this.buffer = buffer;
    this.#values = new Float64Array(buffer);
  }

  add(field: Field, amount: number): void {
    this.#values[FIELDS.indexOf(field)]! += amount;
  }

  /** Seconds of a batch that its tables can save at most, as the latest batches were. Undefined before the first. */
  get savable(): number | undefined {
    return this.#values[FIELDS.length] || undefined;
  }

  /** The inference thread calls it for each batch. */
  batchCould(save: number): void {
    const before = this.savable;
    // A batch that waits for nothing still counts as measured.
    this.#values[FIELDS.length] = Math.max(
      1e-9,
      before === undefined ? save : before + LATEST * (save - before),
    );
  }

  figures(): BuilderFigures {
    return Object.fromEntries(FIELDS.map((field, i) => [field, this.#values[i]!])) as BuilderFigures;
  }
}
