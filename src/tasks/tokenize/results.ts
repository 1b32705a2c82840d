/** Converts texts into their tokens. */

import { SidaError } from '../../errors.js';
import type { TextToEncode } from '../../protocol/tokenizer-messages.js';
import { checkAnswerBytes } from '../../text/text-bytes.js';
import { type ModelLimits, requireTexts } from '../shared/prepared-input.js';
import type { OwnResult } from '../task.js';
import type { TokenizeJob, TokenizeResult } from './job.js';

/**
 * Most tokens of one answer. Each has a number and a text, about fifteen bytes that several processes pass on: more
 * would hold their main threads, and with them all other clients, for longer than requests of any other kind do.
 */
const MOST_TOKENS = 65_536;

export function tokenizeTexts(
  { inputs, conversation, addSpecialTokens }: TokenizeJob,
  limits: ModelLimits,
): TextToEncode[] {
  requireTexts(limits, 'input');
  if (conversation !== undefined) return [{ text: conversation, special: false, chat: true }];
  return inputs.map((text) => ({ text, special: addSpecialTokens }));
}

export function tokenizeResult(
  { conversation }: TokenizeJob,
  limits: ModelLimits,
  found: readonly number[][],
): OwnResult<TokenizeResult> & { promptTokens: number } {
  const texts = requireTexts(limits, 'input');
  const promptTokens = found.reduce((sum, ids) => sum + ids.length, 0);
  if (conversation !== undefined) return { data: [], promptTokens, completionTokens: 0 };
  checkAnswer(promptTokens);
  const data = found.map((ids) => ({ ids, tokens: ids.map((id) => texts.idToToken(id)) }));
  checkAnswerBytes(data.reduce((sum, { tokens }) => sum + Buffer.byteLength(tokens.join('')), 0));
  return { data, promptTokens, completionTokens: 0 };
}

function checkAnswer(tokens: number): void {
  if (tokens <= MOST_TOKENS) return;
  throw new SidaError({
    code: 'cannot_run',
    message: `The inputs have ${tokens} tokens together; the limit of one answer is ${MOST_TOKENS}`,
    param: 'input',
    details: { tokens, limit: MOST_TOKENS },
  });
}
