/** One pass over traces that learns the token table and the hash graph. */
import type { HashGraph } from '../functions/graph.js';
import type { TokenTable } from '../functions/token-table.js';
import { layersOf, type Side } from '../hash-function.js';
import { GraphLearner } from './graph-learning.js';
import { inputOf, routedOf } from './hit-rates.js';
import { rankProbabilities, tuneRefiner } from './refiner-tuning.js';
import type { TeacherRecord, TeacherSource } from './teacher.js';
import { TokenTableLearner } from './token-table-learning.js';

/** Neighbouring lines of a data file often share text: they are held out together. */
const BLOCK = 50;
/** One block in this many is held out to tune the refiners; fewer where they would pass the limit of tokens. */
const FIRST_STRIDE = 8;
const HELD_OUT_TOKENS = 32_768;

export interface LearnedHashFunctions {
  table: TokenTable;
  /** With refiner settings for `token` and `graph`. */
  graph: HashGraph;
  /** Records that the refiner's settings were chosen on. */
  heldOut: TeacherRecord[];
}

/** Memory grows with the token ids that occur, not with the length of the traces. `onRecord` is told of each line. */
export async function learnHashFunctions(
  teacher: TeacherSource,
  onRecord: (record: TeacherRecord) => void = () => {},
): Promise<LearnedHashFunctions> {
  const tables = new TokenTableLearner(teacher.shape);
  const graphs = new GraphLearner(teacher.shape);
  const learn = (record: TeacherRecord) => {
    tables.add(record);
    graphs.add(record);
  };
  const sample = new HeldOutSample(learn);
  for await (const record of teacher.records()) {
    onRecord(record);
    sample.add(record);
  }
  const heldOut = sample.records;
  const backOff = tables.tuneBackOff(heldOut);
  const table = tables.finish({ backOff });
  const start = {
    encoder: startOf(table, heldOut, 'encoder'),
    decoder: startOf(table, heldOut, 'decoder'),
  };
  const tuned = graphs.finish(start);
  const settings = {
    token: tuneRefiner(tuned, table, heldOut),
    graph: tuneRefiner(tuned, tuned.hashFunction(table), heldOut),
  };
  heldOut.forEach(learn);
  const graph = graphs.finish(start);
  graph.refiners.set('token', settings.token).set('graph', settings.graph);
  return { table: tables.finish({ backOff }), graph, heldOut };
}

/** Keeps blocks of records that stand evenly apart, and passes the others on. */
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
    // Not the first: what little there is should be learned from.
    if (block % this.#stride === 1) {
      if (first) this.#blocks.push([]);
      this.#blocks.at(-1)!.push(record);
    } else {
      this.#learn(record);
    }
  }

  /** Gives every other block back to be learned from, until the limit holds. */
  #thin(): void {
    const tokens = () => this.records.reduce((sum, { encoder }) => sum + encoder.tokens.length, 0);
    while (tokens() > HELD_OUT_TOKENS && this.#blocks.length > 1) {
      this.#stride *= 2;
      for (const [i, block] of this.#blocks.entries()) if (i % 2 === 1) block.forEach(this.#learn);
      this.#blocks = this.#blocks.filter((_, i) => i % 2 === 0);
    }
  }
}

/** How often the table's expert of each rank in the first layer is the true one; (width). */
function startOf(table: TokenTable, heldOut: TeacherRecord[], side: Side): Float32Array<ArrayBuffer> {
  const { width } = table.sides[side];
  const layers = layersOf(table.shape, side);
  const input = inputOf(heldOut, side);
  const experts = new Uint16Array(layers * input.tokens.length * width);
  const [alpha, chance] = [new Float32Array(experts.length), new Float32Array(experts.length)];
  table.fill(side, input, width, experts, alpha, chance);
  const first = routedOf(heldOut, side, layers).subarray(0, layers === 0 ? 0 : input.tokens.length);
  return rankProbabilities(experts, first, width, table.shape.experts);
}
