/** Bounds the decode steps that the main thread has not read, so that the inference thread cannot run far ahead. */

/** Enough to keep both threads busy. With more, a new message would only wait behind older ones. */
export const STEPS_UNREAD = 4;

export class StepBacklog {
  readonly buffer: SharedArrayBuffer;
  readonly #unread: Int32Array;

  constructor(buffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer;
    this.#unread = new Int32Array(buffer);
  }

  get unread(): number {
    return Atomics.load(this.#unread, 0);
  }

  /** Blocks until there is room for a step, then counts the step. */
  add(): void {
    for (let unread = this.unread; unread >= STEPS_UNREAD; unread = this.unread)
      Atomics.wait(this.#unread, 0, unread);
    Atomics.add(this.#unread, 0, 1);
  }

  /** Counts a step as read. */
  taken(): void {
    Atomics.sub(this.#unread, 0, 1);
    Atomics.notify(this.#unread, 0);
  }
}
