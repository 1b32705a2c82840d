/** What the engine asks of the threads that compile grammars. */
import type { SidaError } from '../errors.js';
import type { WaitingGrammar } from './grammar-turns.js';

/** Where the matchers of a compiled grammar run, until `release` is called. */
export interface PreparedGrammar {
  thread: number;
  release: () => void;
}

export interface GrammarRequest extends WaitingGrammar {
  /** The field of the request that errors name. */
  param: string;
}

/** Makes grammars ready for generations. */
export interface GrammarPreparer {
  /**
   * Calls `done` once, with the grammar's thread or with the reason why there is none. The function that it returns
   * cancels: `done` is then not called.
   */
  prepare(request: GrammarRequest, done: (found: PreparedGrammar | SidaError) => void): () => void;
}
