/** The job and the result of a completion, as they are sent between processes and stored in Redis. */
import { z } from 'zod';
import { storedBeams } from '../shared/beams.js';
import { storedAdjustments } from '../shared/logit-adjustments.js';
import {
  count,
  MOST_STORED,
  resultFields,
  runFields,
  sampling,
  storedChoice,
  texts,
} from '../shared/stored.js';
import { storedStructure } from '../shared/structure.js';

export const storedJob = z.object({
  kind: z.literal('complete'),
  prompts: z
    .array(z.union([z.string(), z.array(count)]))
    .min(1)
    .max(MOST_STORED),
  /** Choices per prompt. Default: 1. */
  choices: z.int().min(1).max(MOST_STORED).exactOptional(),
  /** 0 only with `echo`: the prompts are scored and nothing is generated. */
  maxTokens: count,
  /** Whether `maxTokens` may be more than the context has left; absent: such a job is refused. */
  cutToContext: z.boolean().exactOptional(),
  /** Absent if every choice takes the most likely tokens. */
  sampling: sampling.exactOptional(),
  /** Absent if nothing changes the logits. */
  adjustments: storedAdjustments.exactOptional(),
  /** Present for a beam search. The choices are its best texts. */
  search: storedBeams.exactOptional(),
  /** Token that every choice begins with. */
  forcedFirst: count.exactOptional(),
  stop: texts,
  /** Number of most likely tokens to report for each generated token; null for no log-probabilities. */
  logprobs: count.nullable(),
  stream: z.boolean(),
  /** What every text must be; absent if it may be anything. */
  structure: storedStructure.exactOptional(),
  /** Whether each text, and its log-probabilities, begin with the prompt. Default: no. */
  echo: z.boolean().exactOptional(),
  /** Whether the text shows special tokens. Default: no. */
  showSpecialTokens: z.boolean().exactOptional(),
  /** Whether the answer shows the token ids. The result always contains them. */
  showTokenIds: z.boolean().exactOptional(),
  ...runFields,
});

export const storedResult = z.object({
  kind: z.literal('complete'),
  choices: z.array(storedChoice),
  /** Tokens that all beams were fed; present after a beam search. */
  beamTokens: count.exactOptional(),
  ...resultFields,
});

export const storedForm = z.object({
  /** Alternatives shown for each token; null shows no log-probabilities. */
  logprobs: count.nullable(),
  tokenIds: z.boolean(),
  experts: z.boolean(),
  tokenExperts: z.boolean().exactOptional(),
});

export type CompleteJob = z.infer<typeof storedJob>;
export type CompleteResult = z.infer<typeof storedResult>;
export type CompleteForm = z.infer<typeof storedForm>;
