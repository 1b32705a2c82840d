/** Names the experts of each step of generations before it runs: what the scheduler sees of a predictor. */
import type { HashTable } from '../protocol/hash-table.js';

export interface StepForecaster {
  /** Whether no tables are built for a while. */
  readonly paused: boolean;
  /**
   * `context` is what the sequence attends to or continues, and `fed` what its steps have been fed. `required` is set
   * if tables route the sequence: it then begins even while table building is paused. Does nothing for a sequence that
   * has begun.
   */
  begin(sequence: number, context: Int32Array, required: boolean, fed?: Int32Array): void;
  /** Begins a sequence as a copy of another one. Does nothing if that one was not begun. */
  fork(from: number, sequence: number): void;
  end(sequence: number): void;
  /**
   * Returns the table of a step that feeds each sequence one token, or null if there is none. A sequence that was not
   * begun has no experts in the table. If tables route, with `routingK` experts per token, one such sequence makes
   * the whole table null.
   */
  step(sequences: readonly number[], tokens: readonly number[], routingK: number): HashTable | null;
  /** Records how long a step of the model took, and the seconds that its table saved it if there was one. */
  stepTook(ms: number, saved: number | undefined): void;
}
