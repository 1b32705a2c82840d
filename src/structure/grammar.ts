/** Grammars of answers, as plain data: what the tasks ask for, and what the grammar threads compile. */

export type Grammar =
  | { kind: 'text'; text: string }
  /** JSON that a schema describes. Closed objects have only the properties that the schema names. */
  | { kind: 'json'; schema: string; closed: boolean }
  /** Any text up to `end`, which belongs to it. */
  | { kind: 'until'; end: string }
  | { kind: 'sequence'; parts: Grammar[] }
  | { kind: 'choice'; parts: Grammar[] };

/**
 * Stands before the text of a control token, so that a grammar can tell the token `<think>` from a text that looks
 * like it. No JSON has this character, and `until` does not take it.
 */
export const CONTROL_MARK = '\x01';

export const NOTHING: Grammar = { kind: 'text', text: '' };

/** A grammar as text, by which it is kept and sent. */
export function grammarText(grammar: Grammar): string {
  return JSON.stringify(grammar);
}
