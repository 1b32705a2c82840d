/** A window of passes of one arm. Its first passes are not measured: they still feel the arm before it. */
import type { Arm } from '../protocol/governor-figures.js';
import type { PassExpectation } from './pass-expectation.js';

export interface PassTime {
  /** Passes of one kind take similar times if they have as many tokens. */
  kind: number;
  tokens: number;
  /** Time of the inference thread since the pass before it, without idle time. */
  ms: number;
}

interface WindowLength {
  /** Measured passes and their time, both at least. */
  passes: number;
  ms: number;
  /** Passes and time before the measurement, both at least. */
  settlePasses: number;
  settleMs: number;
}

/** The expectation must know sizes that make up this share of a window's time, or the window says nothing. */
const COMPARABLE = 0.5;

export class ProbeWindow {
  readonly arm: Arm;
  readonly #length: WindowLength;
  /** Measured passes by kind and tokens. */
  readonly #sums = new Map<string, PassTime & { passes: number }>();
  #settlingPasses = 0;
  #settlingMs = 0;
  passes = 0;
  tokens = 0;
  ms = 0;

  constructor(arm: Arm, length: WindowLength) {
    this.arm = arm;
    this.#length = length;
  }

  /** Time of all its passes. */
  get wholeMs(): number {
    return this.#settlingMs + this.ms;
  }

  get isFull(): boolean {
    return this.passes >= this.#length.passes && this.ms >= this.#length.ms;
  }

  /** Returns whether the pass was measured. While `settling`, it is not. */
  add(pass: PassTime, settling: boolean): boolean {
    const { settlePasses, settleMs } = this.#length;
    if (
      this.passes === 0 &&
      (settling || this.#settlingPasses < settlePasses || this.#settlingMs < settleMs)
    ) {
      this.#settlingPasses += 1;
      this.#settlingMs += pass.ms;
      return false;
    }
    const { kind, tokens, ms } = pass;
    this.passes += 1;
    this.tokens += tokens;
    this.ms += ms;
    const key = `${kind} ${tokens}`;
    const sum = this.#sums.get(key);
    if (sum === undefined) this.#sums.set(key, { ...pass, passes: 1 });
    else {
      sum.passes += 1;
      sum.ms += ms;
    }
    return true;
  }

  /** Its time over the expected one, or undefined if too little of it can be compared. */
  ratio(expectation: PassExpectation): number | undefined {
    let took = 0;
    let expected = 0;
    for (const { kind, tokens, ms, passes } of this.#sums.values()) {
      const each = expectation.of(kind, tokens);
      if (each === undefined) continue;
      took += ms;
      expected += each * passes;
    }
    return took < this.ms * COMPARABLE || expected === 0 ? undefined : took / expected;
  }
}
