/** The job and the result of a tokenization, as they are sent between processes and stored in Redis. */
import { z } from 'zod';
import { count, resultFields, texts } from '../shared/stored.js';

export const storedJob = z.object({
  kind: z.literal('tokenize'),
  inputs: texts,
  /** A `Conversation` in JSON in place of inputs. Its tokens are counted, and not told. */
  conversation: z.string().exactOptional(),
  addSpecialTokens: z.boolean(),
});

export const storedResult = z.object({
  kind: z.literal('tokenize'),
  data: z.array(z.object({ ids: z.array(count), tokens: z.array(z.string()) })),
  ...resultFields,
});

/** Empty, because the answer always has the same form. */
export const storedForm = z.object({});

export type TokenizeJob = z.infer<typeof storedJob>;
export type TokenizeResult = z.infer<typeof storedResult>;
export type TokenizeForm = z.infer<typeof storedForm>;
