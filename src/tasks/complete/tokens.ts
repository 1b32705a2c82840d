/** Tokens of a completion. */
import { promptIds, promptStrings } from '../shared/prompts.js';
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { TaskTokens } from '../task.js';
import type { CompleteJob, CompleteResult } from './job.js';

export const completeTokens: TaskTokens<CompleteJob, CompleteResult> = {
  input: ({ prompts }) => inputTokens(prompts),
  bytes: ({ prompts, adjustments }) => heldBytes([...prompts, ...(adjustments?.biases ?? [])]),
  cost({ prompts, maxTokens, choices = 1, search }) {
    const made = maxTokens * prompts.length * (search?.beams ?? choices);
    return { known: promptIds(prompts) + made, estimated: reservedTokens(promptStrings(prompts)) };
  },
  texts: ({ prompts }) => promptStrings(prompts),
  used: (_job, { promptTokens, completionTokens, beamTokens = completionTokens }) =>
    promptTokens + beamTokens,
};
