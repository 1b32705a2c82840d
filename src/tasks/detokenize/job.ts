/** The job and the result of a detokenization, as they are sent between processes and stored in Redis. */
import { z } from 'zod';
import { count, MOST_STORED, resultFields, texts } from '../shared/stored.js';

export const storedJob = z.object({
  kind: z.literal('detokenize'),
  ids: z.array(z.array(count)).max(MOST_STORED),
  skipSpecialTokens: z.boolean(),
});

export const storedResult = z.object({ kind: z.literal('detokenize'), texts, ...resultFields });

/** Empty, because the answer always has the same form. */
export const storedForm = z.object({});

export type DetokenizeJob = z.infer<typeof storedJob>;
export type DetokenizeResult = z.infer<typeof storedResult>;
export type DetokenizeForm = z.infer<typeof storedForm>;
