/** Tokens of a completion. */
import { chargedTokens } from '../shared/logit-adjustments.js';
import { promptIds, promptStrings } from '../shared/prompts.js';
import { heldSchemas, ownSchemas } from '../shared/structure.js';
import { heldBytes, inputTokens, reservedTokens } from '../shared/token-estimates.js';
import type { TaskTokens } from '../task.js';
import type { CompleteJob, CompleteResult } from './job.js';

export const completeTokens: TaskTokens<CompleteJob, CompleteResult> = {
  input: ({ prompts }) => inputTokens(prompts),
  bytes: ({ prompts, structure, adjustments }) =>
    heldBytes([...prompts, ...heldSchemas(structure), ...(adjustments?.biases ?? [])]),
  cost({ prompts, structure, maxTokens, choices = 1, search, adjustments }) {
    const made = chargedTokens({ adjustments }) * maxTokens * prompts.length * (search?.beams ?? choices);
    const texts = [...promptStrings(prompts), ...ownSchemas(structure)];
    return { known: promptIds(prompts) + made, estimated: reservedTokens(texts) };
  },
  texts: ({ prompts, structure }) => [...promptStrings(prompts), ...ownSchemas(structure)],
  used: (job, { promptTokens, completionTokens, beamTokens = completionTokens }) =>
    promptTokens + chargedTokens(job) * beamTokens,
};
