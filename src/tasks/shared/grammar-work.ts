import { SidaError } from '../../errors.js';
import type { GrammarWork } from '../../protocol/item-work.js';
import { type Grammar, grammarText } from '../../structured-output/grammar.js';
import type { ModelLimits } from './prepared-input.js';

/**
 * `param` is the field that demands it. The job runner finds the thread. Throws cannot_run for a model whose answers
 * have no end.
 */
export function grammarWork(grammar: Grammar, param: string, { shape }: ModelLimits): GrammarWork {
  if (shape.tokens.end.length > 0) return { text: grammarText(grammar), thread: 0, param };
  const message = 'The model has no end token, so that no structure can be demanded of its answers';
  throw new SidaError({ code: 'cannot_run', message });
}
