/** The mean of an input's last hidden states. It is the same, to the last bit, in whatever passes the input runs. */
import { SidaError } from '../errors.js';

export class StateMean {
  #sums: Float64Array | undefined;
  #rows = 0;

  /** Adds the states (rows, width) of the next tokens. */
  add(states: Float32Array, rows: number): void {
    const width = states.length / rows;
    this.#sums ??= new Float64Array(width);
    for (let at = 0; at < states.length; at += 1) this.#sums[at % width]! += states[at]!;
    this.#rows += rows;
  }

  /** Throws nonfinite_output. */
  values(): number[] {
    const values = Array.from(this.#sums ?? [], (sum) => Math.fround(sum / this.#rows));
    if (values.every(Number.isFinite)) return values;
    const message = 'The model gave a hidden state that is not finite';
    throw new SidaError({ code: 'nonfinite_output', message });
  }
}
