/** Messages to and from the grammar threads, which compile grammars and follow generations through them. */
import type { MessagePort } from 'node:worker_threads';
import { clockMs } from '../clock.js';
import type { ErrorBody } from '../errors.js';

export interface GrammarThreadData {
  /** The bytes of tokenizer.json. */
  json: SharedArrayBuffer;
  vocabSize: number;
  endTokens: readonly number[];
  /** The control tokens that a grammar may name: their texts by id. */
  controls: ReadonlyMap<number, string>;
  /** Most bytes of the library's memory. */
  memoryBytes: number;
  /** Where the inference thread sends `ToMatchers`. */
  matchers: MessagePort;
}

/** What the grammar threads hold. */
export interface GrammarFigures {
  threads: number;
  /** WebAssembly memory of all. */
  bytes: number;
}

/** A grammar thread. The one that replaces it has the same index, and another incarnation. */
export interface ThreadLife {
  thread: number;
  incarnation: number;
}

/** From the engine's main thread. `grammar` is a `Grammar` as text. */
export type ToGrammarThread = { type: 'compile'; grammar: string };

/** `bytes` is the library's memory. */
export type FromGrammarThread =
  | { type: 'opened' }
  /** The thread cannot serve the model. */
  | { type: 'failed'; error: ErrorBody }
  /** The thread begins with the grammar that it was sent. */
  | { type: 'compiling' }
  | { type: 'compiled'; bytes: number }
  | { type: 'refused'; reason: string }
  /** The thread must be replaced. `compiling` tells whether the grammar that it compiled is the cause. */
  | { type: 'broken'; reason: string; compiling: boolean };

/** From the inference thread. */
export type ToMatchers =
  /** A matcher that has already taken `tokens`. Its answers go to `state`, the buffer of a `MatcherState`. */
  | { type: 'open'; id: number; grammar: string; tokens: number[]; state: SharedArrayBuffer }
  | { type: 'take'; id: number; token: number }
  | { type: 'close'; id: number };

/** Why a matcher has no tokens to allow. */
const MATCHER_FAULTS = ['', 'rejected', 'stuck', 'broken', 'slow'] as const;
export type MatcherFault = (typeof MATCHER_FAULTS)[number];

/**
 * Most time of the library for one token of a generation. Usual grammars need microseconds to a few milliseconds, and
 * all generations on the thread wait meanwhile.
 */
export const TOKEN_MS = 2_000;

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
