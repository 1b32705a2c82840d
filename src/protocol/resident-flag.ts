/** Whether every expert of the model has a slot: then nothing moves, and tables are of no use. */
export class ResidentFlag {
  readonly buffer: SharedArrayBuffer;
  readonly #flag: Int32Array;

  constructor(buffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer;
    this.#flag = new Int32Array(buffer);
  }

  get all(): boolean {
    return Atomics.load(this.#flag, 0) === 1;
  }

  set all(all: boolean) {
    Atomics.store(this.#flag, 0, all ? 1 : 0);
  }
}
