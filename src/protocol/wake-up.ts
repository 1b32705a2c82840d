/** Lets several threads wake one sleeping thread. The sleeper must read `signals` before it checks for work. */

/** How long to poll before sleeping. Threads often hand over work faster than a futex wakes a halted core. */
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

  /** Resolves once a signal arrives after `seen` was read. For threads that must not block. */
  async signalled(seen: number): Promise<void> {
    const waiting = Atomics.waitAsync(this.#signals, 0, seen);
    if (waiting.async) await waiting.value;
  }

  /** Blocks until a signal arrives after `seen` was read, or `timeoutMs` passes. Returns true if a signal arrived. */
  wait(seen: number, timeoutMs: number): boolean {
    const spinEnd = performance.now() + Math.min(SPIN_MS, timeoutMs);
    do {
      if (this.signals !== seen) return true;
    } while (performance.now() < spinEnd);
    return Atomics.wait(this.#signals, 0, seen, timeoutMs) !== 'timed-out';
  }
}
