/** Messages to and from the grammar threads, which compile grammars and follow generations through them. */
import type { MessagePort } from 'node:worker_threads';
import type { ErrorBody } from '../errors.js';

export interface GrammarThreadData {
  /** The bytes of tokenizer.json, in shared memory. */
  json: Uint8Array;
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
  /** `systemId` is the system's number of the thread; empty where it has none. */
  | { type: 'opened'; systemId: string }
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

/**
 * Most time of the library for one token of a generation. Usual grammars need microseconds to a few milliseconds, and
 * all generations on the thread wait meanwhile.
 */
export const TOKEN_MS = 2_000;
