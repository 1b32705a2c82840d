/** A shared flag that is set while every expert has a slot. No expert moves then, and tables are of no use. */
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
