/** Wakes one sleeping thread from several others. The sleeper reads `rings` before it looks for work. */

/** Threads hand over faster than a futex wakes a halted core, so a sleeper looks again for this long first. */
const SPIN_MS = 0.04;

export class Doorbell {
  readonly buffer: SharedArrayBuffer;
  readonly #rings: Int32Array;

  constructor(buffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer;
    this.#rings = new Int32Array(buffer);
  }

  get rings(): number {
    return Atomics.load(this.#rings, 0);
  }

  ring(): void {
    Atomics.add(this.#rings, 0, 1);
    Atomics.notify(this.#rings, 0);
  }

  /** Resolves once the bell has rung since `seen` was read: for a thread that must not block. */
  async rung(seen: number): Promise<void> {
    const waiting = Atomics.waitAsync(this.#rings, 0, seen);
    if (waiting.async) await waiting.value;
  }

  /** Blocks until the bell has rung since `seen` was read, or `timeoutMs` passed; true when it rang. */
  wait(seen: number, timeoutMs: number): boolean {
    const spinEnd = performance.now() + Math.min(SPIN_MS, timeoutMs);
    do {
      if (this.rings !== seen) return true;
    } while (performance.now() < spinEnd);
    return Atomics.wait(this.#rings, 0, seen, timeoutMs) !== 'timed-out';
  }
}
