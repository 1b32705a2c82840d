/** Hash tables of generations, token by token. They are built between two steps: handing over takes longer than they do. */
import type { DecoderStepper } from '../predictor/decoder-stepper.js';
import { fillNeed } from '../predictor/expert-need.js';
import {
  createHashTable,
  type HashTable,
  TABLE_K,
  TABLE_PREDICTED,
  TABLE_READY,
} from '../predictor/hash-table.js';

export class StepTables {
  readonly #stepper: DecoderStepper;
  readonly #layers: number;
  readonly #experts: number;
  readonly #sequences = new Set<number>();

  /** `layers`: MoE layers of the decoder, of so many experts each. */
  constructor(stepper: DecoderStepper, layers: number, experts: number) {
    this.#stepper = stepper;
    this.#layers = layers;
    this.#experts = experts;
  }

  /** `context`: the sequence's encoder tokens. */
  begin(sequence: number, context: Int32Array): void {
    this.#stepper.begin(sequence, context);
    this.#sequences.add(sequence);
  }

  end(sequence: number): void {
    if (this.#sequences.delete(sequence)) this.#stepper.end(sequence);
  }

  /** The table of a step that feeds each sequence one token; null when it cannot be told. */
  step(sequences: readonly number[], tokens: readonly number[]): HashTable | null {
    if (!sequences.every((sequence) => this.#sequences.has(sequence))) return null;
    const table = createHashTable({
      batchId: 0,
      layers: this.#layers,
      tokens: tokens.length,
      k: Math.min(TABLE_K, this.#experts),
      kind: TABLE_PREDICTED,
      expertsPerLayer: this.#experts,
    });
    const { k, experts, alpha, chance } = table;
    if (!this.#stepper.step(Int32Array.from(sequences), Int32Array.from(tokens), k, experts, alpha, chance)) {
      for (const sequence of sequences) this.end(sequence);
      return null;
    }
    fillNeed(table);
    table.settle(TABLE_READY);
    return table;
  }
}
