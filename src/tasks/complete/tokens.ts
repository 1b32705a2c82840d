/** Tokens of a completion. */
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { TaskTokens } from '../task.js';
import type { CompleteJob, CompleteResult } from './job.js';

export const completeTokens: TaskTokens<CompleteJob, CompleteResult> = {
  input: ({ prompts }) => inputTokens(prompts),
  bytes: ({ prompts }) => heldBytes(prompts),
  cost({ prompts, maxTokens, choices = 1, search }) {
    const texts = prompts.filter((prompt) => typeof prompt === 'string');
    const ids = prompts.filter((prompt) => typeof prompt !== 'string');
    const sent = ids.reduce((sum, prompt) => sum + prompt.length, 0);
    const made = maxTokens * prompts.length * (search?.beams ?? choices);
    return { known: sent + made, estimated: reservedTokens(texts) };
  },
  texts: ({ prompts }) => prompts.filter((prompt) => typeof prompt === 'string'),
  used: (_job, { promptTokens, completionTokens, beamTokens = completionTokens }) =>
    promptTokens + beamTokens,
};
