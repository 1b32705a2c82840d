/** Rules for text that a grammar leaves to the model, up to a word that ends it. */
import { charactersBut, choice, literal, type Rules } from './ebnf.js';
import { CONTROL_MARK } from './grammar.js';

/** Characters that no free text has: control tokens begin with one of them. */
const NEVER = [0x00, 0x08] as const;

/**
 * Any text up to `end`, and `end`. Each rule stands for a number of characters of `end` that were just written. A
 * control token needs one rule, since no other text has its mark.
 */
export function textUntil(end: string, rules: Rules): string {
  if (end.startsWith(CONTROL_MARK)) return `${charactersBut([NEVER])}* ${literal(end)}`;
  const own = [...new Set(end)];
  const names = Array.from(end, () => rules.reserve());
  const others = charactersBut([NEVER, ...own.map(codeOf)]);
  for (const [matched, name] of names.entries()) {
    const next = own.map((character) => {
      const reached = overlap(end.slice(0, matched) + character, end);
      return `${literal(character)} ${names[reached] ?? ''}`;
    });
    rules.define(name, choice([...next, `${others} ${names[0]}`]));
  }
  return names[0]!;
}

function codeOf(character: string): [number, number] {
  const code = character.codePointAt(0)!;
  return [code, code];
}

/** Length of the longest end of `text` that `word` begins with. */
function overlap(text: string, word: string): number {
  for (let length = Math.min(text.length, word.length); length > 0; length -= 1) {
    if (text.endsWith(word.slice(0, length))) return length;
  }
  return 0;
}
