/** The text that the thread is encoding, in shared memory. The thread writes it and the main thread reads it. */
export class RunningText {
  readonly buffer: SharedArrayBuffer;
  readonly #values: Int32Array;

  constructor(buffer = new SharedArrayBuffer(8)) {
    this.buffer = buffer;
    this.#values = new Int32Array(buffer);
  }

  set(turn: number, index: number): void {
    Atomics.store(this.#values, 0, turn);
    Atomics.store(this.#values, 1, index);
  }

  get(): { turn: number; index: number } {
    return { turn: Atomics.load(this.#values, 0), index: Atomics.load(this.#values, 1) };
  }
}
