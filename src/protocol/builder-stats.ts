/**
 * Counters of hash building in shared memory, which the inference thread reads. The hash-building thread writes them,
 * but for the inputs, which the main thread counts.
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
