/** What a matcher allows next, in shared memory. */
import { clockMs } from '../clock.js';

/** Why a matcher has no tokens to allow. */
const MATCHER_FAULTS = ['', 'rejected', 'stuck', 'broken', 'slow'] as const;
export type MatcherFault = (typeof MATCHER_FAULTS)[number];

const TAKEN = 0;
const FAULT = 1;
const CALLS = 2;
const HEAD = 3;

/** The tokens that a matcher allows next, in shared memory. The grammar thread writes it when it took a token. */
export class MatcherState {
  readonly buffer: SharedArrayBuffer;
  /** (ceil(vocab / 32)): bit t % 32 of word t / 32 stands for token t. */
  readonly allowed: Uint32Array;
  readonly #head: Int32Array;

  /** `size` is that of the vocabulary. */
  constructor(size: number, buffer = new SharedArrayBuffer(4 * (HEAD + Math.ceil(size / 32)))) {
    this.buffer = buffer;
    this.#head = new Int32Array(buffer, 0, HEAD);
    this.allowed = new Uint32Array(buffer, 4 * HEAD);
  }

  get fault(): MatcherFault {
    return MATCHER_FAULTS[Atomics.load(this.#head, FAULT)]!;
  }

  /** Grows as the thread begins and ends a call of the library for this matcher: odd during a call. */
  get calls(): number {
    return Atomics.load(this.#head, CALLS);
  }

  /** The thread begins or ends a call. */
  callsOrReturns(): void {
    Atomics.add(this.#head, CALLS, 1);
  }

  /** `allowed` is that of the tokens so far, of which there are `taken`. */
  answered(taken: number, fault: MatcherFault = ''): void {
    Atomics.store(this.#head, FAULT, MATCHER_FAULTS.indexOf(fault));
    // One more, so that it is above 0 before any token.
    Atomics.store(this.#head, TAKEN, taken + 1);
    Atomics.notify(this.#head, TAKEN);
  }

  isAnswered(taken: number): boolean {
    return Atomics.load(this.#head, TAKEN) === taken + 1;
  }

  /** Waits at most `ms` for the answer after `taken` tokens. */
  wait(taken: number, ms: number): void {
    const until = clockMs() + ms;
    for (let left = ms; left > 0; left = until - clockMs()) {
      const before = Atomics.load(this.#head, TAKEN);
      if (before === taken + 1) return;
      // The thread may still notify of the answer before, which ends the wait too early.
      Atomics.wait(this.#head, TAKEN, before, left);
    }
  }
}
