/** Tokens of embeddings. */
import { promptIds, promptStrings } from '../shared/prompts.js';
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { TaskTokens } from '../task.js';
import type { EmbedJob, EmbedResult } from './job.js';

export const embedTokens: TaskTokens<EmbedJob, EmbedResult> = {
  input: ({ inputs }) => inputTokens(inputs),
  bytes: ({ inputs }) => heldBytes(inputs),
  cost: ({ inputs }) => ({ known: promptIds(inputs), estimated: reservedTokens(promptStrings(inputs)) }),
  texts: ({ inputs }) => promptStrings(inputs),
  used: (_job, { promptTokens }) => promptTokens,
};
