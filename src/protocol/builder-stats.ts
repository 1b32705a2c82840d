/**
 * Counters of the hash-building thread in shared memory. That thread writes them and the inference thread reads them.
 * The main thread counts the inputs of a batch that goes past it, and only while that thread has nothing to do.
 */

const FIELDS = ['ready', 'failed', 'abandoned', 'skipped', 'seconds', 'inputs'] as const;
type Field = (typeof FIELDS)[number];

/** Batches by the final state of their tables, the seconds spent on building, and the inputs of all batches. */
export type BuilderFigures = Record<Field, number>;

export class BuilderStats {
  readonly buffer: SharedArrayBuffer;
  readonly #values: Float64Array;

  constructor(buffer = new SharedArrayBuffer(FIELDS.length * 8)) {
    this.buffer = buffer;
    this.#values = new Float64Array(buffer);
  }

  add(field: Field, amount: number): void {
    this.#values[FIELDS.indexOf(field)]! += amount;
  }

  figures(): BuilderFigures {
    return Object.fromEntries(FIELDS.map((field, i) => [field, this.#values[i]!])) as BuilderFigures;
  }
}
