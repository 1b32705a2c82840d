/** Converts texts into their tokens. */
import { type ModelLimits, tokenizerOf } from '../shared/prepared-input.js';
import type { OwnResult } from '../task.js';
import type { TokenizeJob, TokenizeResult } from './job.js';

export function tokenizeResult(
  { inputs, addSpecialTokens }: TokenizeJob,
  limits: ModelLimits,
): OwnResult<TokenizeResult> & { promptTokens: number } {
  const tokenizer = tokenizerOf(limits, 'input');
  const data = inputs.map((text) => {
    const ids = addSpecialTokens ? tokenizer.encode(text) : tokenizer.encodePlain(text);
    return { ids, tokens: ids.map((id) => tokenizer.idToToken(id)) };
  });
  const promptTokens = data.reduce((sum, { ids }) => sum + ids.length, 0);
  return { data, promptTokens, completionTokens: 0 };
}
