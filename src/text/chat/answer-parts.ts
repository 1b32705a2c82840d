/** What an answer consists of, and what splits one. */

export type AnswerPart =
  | { kind: 'reasoning' | 'content'; text: string }
  /** A tool call begins. Calls are numbered from 0. */
  | { kind: 'call'; call: number; name: string }
  /** More of a call's arguments, which together are JSON. */
  | { kind: 'arguments'; call: number; text: string };

export interface AnswerParser {
  /** Returns what became certain with this text. */
  push(text: string): AnswerPart[];
  /** Returns the rest. Call it when no text follows. */
  finish(): AnswerPart[];
}
