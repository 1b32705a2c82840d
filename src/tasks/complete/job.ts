/** The job and the result of a completion, as they travel between processes and stand in Redis. */
import { z } from 'zod';
import {
  count,
  MOST_STORED,
  resultFields,
  runFields,
  sampling,
  texts,
  tokenLogprobs,
} from '../shared/stored.js';

export const storedJob = z.object({
  kind: z.literal('complete'),
  prompts: z
    .array(z.union([z.string(), z.array(count)]))
    .min(1)
    .max(MOST_STORED),
  /** For each prompt; default 1. */
  choices: z.int().min(1).max(MOST_STORED).exactOptional(),
  maxTokens: z.int().min(1),
  /** Absent: the most likely token always. */
  sampling: sampling.exactOptional(),
  stop: texts,
  /** Log-probabilities of this many most likely tokens for each generated token; null for none. */
  logprobs: count.nullable(),
  stream: z.boolean(),
  /** Whether the answer has the token ids; the result always does. */
  showTokenIds: z.boolean().exactOptional(),
  ...runFields,
});

export const storedResult = z.object({
  kind: z.literal('complete'),
  choices: z.array(
    z.object({
      /** All choices of the first prompt come first. */
      index: count,
      text: z.string(),
      /** Of what was generated alone; the end token is kept. */
      tokenIds: z.array(count),
      finishReason: z.enum(['stop', 'length']),
      logprobs: z.array(tokenLogprobs).nullable(),
    }),
  ),
  ...resultFields,
});

export const storedForm = z.object({
  /** Alternatives shown for each token; null shows no log-probabilities. */
  logprobs: count.nullable(),
  tokenIds: z.boolean(),
  experts: z.boolean(),
});

export type CompleteJob = z.infer<typeof storedJob>;
export type CompleteResult = z.infer<typeof storedResult>;
export type CompleteForm = z.infer<typeof storedForm>;
export type CompletionChoice = CompleteResult['choices'][number];
