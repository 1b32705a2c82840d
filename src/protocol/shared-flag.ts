/** A flag that threads share. */
export class SharedFlag {
  readonly buffer: SharedArrayBuffer;
  readonly #flag: Int32Array;

  constructor(buffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer;
    this.#flag = new Int32Array(buffer);
  }

  get raised(): boolean {
    return Atomics.load(this.#flag, 0) === 1;
  }

  set raised(raised: boolean) {
    Atomics.store(this.#flag, 0, raised ? 1 : 0);
  }
}
