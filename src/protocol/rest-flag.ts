/** A shared flag that is set while prediction rests. The hash-building thread then builds no tables. */
export class RestFlag {
  readonly buffer: SharedArrayBuffer;
  readonly #flag: Int32Array;

  constructor(buffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer;
    this.#flag = new Int32Array(buffer);
  }

  get rests(): boolean {
    return Atomics.load(this.#flag, 0) === 1;
  }

  set rests(rests: boolean) {
    Atomics.store(this.#flag, 0, rests ? 1 : 0);
  }
}
