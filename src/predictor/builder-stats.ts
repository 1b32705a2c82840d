/** What the hash-building thread has done, in shared memory: it writes, the inference thread reads. */

const FIELDS = [
  'ready',
  'failed',
  'abandoned',
  'skipped',
  'seconds',
  'inputs',
  'passedOver',
  'overdue',
] as const;
type Field = (typeof FIELDS)[number];

/**
 * Batches by what became of their tables, and the time spent on building; inputs put into batches, times one waited on
 * while a younger one went, and those that went because that had happened too often.
 */
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
