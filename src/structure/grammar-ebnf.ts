/** Grammars as EBNF. */
import { choice, literal, Rules } from './ebnf.js';
import { textUntil } from './free-text.js';
import type { Grammar } from './grammar.js';
import { schemaRule } from './schema-rules.js';

export function grammarEbnf(grammar: Grammar): string {
  const rules = new Rules();
  return rules.text(bodyOf(grammar, rules));
}

function bodyOf(grammar: Grammar, rules: Rules): string {
  switch (grammar.kind) {
    case 'text':
      return literal(grammar.text);
    case 'until':
      return rules.add(textUntil(grammar.end, rules));
    case 'json':
      return rules.add(schemaRule(JSON.parse(grammar.schema), grammar.closed, rules));
    case 'sequence':
      return grammar.parts.map((part) => bodyOf(part, rules)).join(' ');
    case 'choice':
      return rules.add(choice(grammar.parts.map((part) => bodyOf(part, rules))));
  }
}
