/** Grammars of answers, as plain data, and what the engine asks of the threads that compile them. */
import type { SidaError } from '../errors.js';

export type Grammar =
  | { kind: 'text'; text: string }
  /** JSON that a schema describes. Closed objects have only the properties that the schema names. */
  | { kind: 'json'; schema: string; closed: boolean }
  /** Any text up to `end`, which belongs to it. The text does not begin with a character of `not`. */
  | { kind: 'until'; end: string; not?: string }
  /** A text that a schema describes, without quotation marks, and `end`. It has no "<", which may begin the end. */
  | { kind: 'bare'; schema: string; end: string }
  /** Any number of pairs of texts. */
  | { kind: 'pairs'; begin: string; middle: string; end: string }
  | { kind: 'sequence'; parts: Grammar[] }
  | { kind: 'choice'; parts: Grammar[] };

/**
 * Stands before the text of a control token, so that a grammar can tell the token `<think>` from a text that looks
 * like it. No JSON has this character, and `until` does not take it.
 */
export const CONTROL_MARK = '\x01';

export const NOTHING: Grammar = { kind: 'text', text: '' };

export function text(own: string): Grammar {
  return { kind: 'text', text: own };
}

export function sequence(...parts: Grammar[]): Grammar {
  return { kind: 'sequence', parts };
}

export function choice(parts: Grammar[]): Grammar {
  return parts.length === 1 ? parts[0]! : { kind: 'choice', parts };
}

/** A grammar as text, by which it is kept and sent. */
export function grammarText(grammar: Grammar): string {
  return JSON.stringify(grammar);
}

/** Where the matchers of a compiled grammar run, until `release` is called. */
export interface PreparedGrammar {
  thread: number;
  release: () => void;
}

export interface GrammarRequest {
  grammar: string;
  /** Names the key that sent the request. Empty without keys. */
  owner: string;
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

export interface GrammarMatcher {
  /** Returns false if the grammar does not allow the token. */
  accept(token: number): boolean;
  /** Whether the end token was accepted: nothing may follow. */
  readonly ended: boolean;
  /** The tokens that may follow; (ceil(vocab / 32)). */
  allowed(): Promise<Int32Array>;
  /** Frees it. */
  close(): void;
}
