/** Tokens of a translation. */
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { TaskTokens } from '../task.js';
import type { TranslateJob, TranslateResult } from './job.js';

/** The source's language code and the end token. */
const ADDED_TOKENS = 2;

export const translateTokens: TaskTokens<TranslateJob, TranslateResult> = {
  input: ({ inputs }) => inputTokens(inputs) + ADDED_TOKENS * inputs.length,
  bytes: ({ inputs }) => heldBytes(inputs),
  cost: ({ inputs, maxTokens, search }) => {
    const each = ADDED_TOKENS + maxTokens * (search?.beams ?? 1);
    return { known: inputs.length * each, estimated: reservedTokens(inputs) };
  },
  texts: ({ inputs }) => inputs,
  used: (_job, { promptTokens, completionTokens, beamTokens = completionTokens }) =>
    promptTokens + beamTokens,
};
