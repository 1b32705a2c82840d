/** Learns the token table in one pass over traces. */
import type { TokenTable } from '../functions/token-table.js';
import type { TeacherRecord, TeacherSource } from '../teacher.js';
import { TokenTableLearner } from './token-table-learning.js';

/** Records per block. Neighbouring lines of a data file often share text, so they are held out together. */
const BLOCK = 50;
/** One block in this many is held out to tune the back-off; fewer if they would exceed the token limit. */
const FIRST_STRIDE = 8;
const HELD_OUT_TOKENS = 32_768;

/**
 * Memory grows with the number of distinct token ids, not with the length of the traces. `onRecord` is called for
 * each record.
 */
export async function learnTokenTable(
  teacher: TeacherSource,
  onRecord: (record: TeacherRecord) => void = () => {},
): Promise<TokenTable> {
  const tables = new TokenTableLearner(teacher.shape);
  const learn = (record: TeacherRecord) => tables.add(record);
  const sample = new HeldOutSample(learn);
  for await (const record of teacher.records()) {
    onRecord(record);
    sample.add(record);
  }
  const heldOut = sample.records;
  const backOff = tables.tuneBackOff(heldOut);
  heldOut.forEach(learn);
  return tables.finish({ backOff });
}

/** Keeps evenly spaced blocks of records and passes the others to `learn`. */
class HeldOutSample {
  readonly #learn: (record: TeacherRecord) => void;
  #blocks: TeacherRecord[][] = [];
  #stride = FIRST_STRIDE;
  #next = 0;

  constructor(learn: (record: TeacherRecord) => void) {
    this.#learn = learn;
  }

  get records(): TeacherRecord[] {
    return this.#blocks.flat();
  }

  add(record: TeacherRecord): void {
    const first = this.#next % BLOCK === 0;
    const block = Math.floor(this.#next++ / BLOCK);
    if (first) this.#thin();
    // Skip block 0, so that a short trace is learned from rather than held out.
    if (block % this.#stride === 1) {
      if (first) this.#blocks.push([]);
      this.#blocks.at(-1)!.push(record);
    } else {
      this.#learn(record);
    }
  }

  /** Passes every other held-out block to `learn` until the token limit holds. */
  #thin(): void {
    const tokens = () => this.records.reduce((sum, { stacks }) => sum + stacks[0]!.tokens.length, 0);
    while (tokens() > HELD_OUT_TOKENS && this.#blocks.length > 1) {
      this.#stride *= 2;
      for (const [i, block] of this.#blocks.entries()) if (i % 2 === 1) block.forEach(this.#learn);
      this.#blocks = this.#blocks.filter((_, i) => i % 2 === 0);
    }
  }
}
