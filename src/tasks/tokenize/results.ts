/** Converts texts into their tokens. */
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { type ModelLimits, requireTexts } from '../shared/prepared-input.js';
import type { OwnResult } from '../task.js';
import type { TokenizeJob, TokenizeResult } from './job.js';

export function tokenizeTexts(
  { inputs, addSpecialTokens }: TokenizeJob,
  limits: ModelLimits,
): TextToEncode[] {
  requireTexts(limits, 'input');
  return inputs.map((text) => ({ text, special: addSpecialTokens }));
}

export function tokenizeResult(
  _job: TokenizeJob,
  limits: ModelLimits,
  found: readonly number[][],
): OwnResult<TokenizeResult> & { promptTokens: number } {
  const texts = requireTexts(limits, 'input');
  const data = found.map((ids) => ({ ids, tokens: ids.map((id) => texts.idToToken(id)) }));
  const promptTokens = data.reduce((sum, { ids }) => sum + ids.length, 0);
  return { data, promptTokens, completionTokens: 0 };
}
