/** Wakes one sleeping thread from several others. The sleeper reads `signals` before it looks for work. */

/** Threads hand over faster than a futex wakes a halted core, so a sleeper looks again for this long first. */
const SPIN_MS = 0.04;

export class WakeUp {
  readonly buffer: SharedArrayBuffer;
  readonly #signals: Int32Array;

  constructor(buffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer;
    this.#signals = new Int32Array(buffer);
  }

  get signals(): number {
    return Atomics.load(this.#signals, 0);
  }

  signal(): void {
    Atomics.add(this.#signals, 0, 1);
    Atomics.notify(this.#signals, 0);
  }

  /** Resolves once a signal came after `seen` was read. For a thread that must not block. */
  async signalled(seen: number): Promise<void> {
    const waiting = Atomics.waitAsync(this.#signals, 0, seen);
    if (waiting.async) await waiting.value;
  }

  /** Blocks until a signal came after `seen` was read, or `timeoutMs` passed. True: a signal came. */
  wait(seen: number, timeoutMs: number): boolean {
    const spinEnd = performance.now() + Math.min(SPIN_MS, timeoutMs);
    do {
      if (this.signals !== seen) return true;
    } while (performance.now() < spinEnd);
    return Atomics.wait(this.#signals, 0, seen, timeoutMs) !== 'timed-out';
  }
}
