/** The job and the result of a translation, as they are sent between processes and stored in Redis. */
import { z } from 'zod';
import { storedBeams } from '../shared/beams.js';
import { count, resultFields, runFields, texts } from '../shared/stored.js';

export const storedJob = z.object({
  kind: z.literal('translate'),
  inputs: texts.min(1),
  /** Language codes of the tokenizer. */
  source: z.string(),
  target: z.string(),
  maxTokens: z.int().min(1),
  /** Absent if every translation takes the most likely tokens. */
  search: storedBeams.exactOptional(),
  /** Whether the answer shows the token ids. The result always contains them. */
  showTokenIds: z.boolean().exactOptional(),
  ...runFields,
});

export const storedResult = z.object({
  kind: z.literal('translate'),
  /** One entry for each input. The ids begin with the target's language code. */
  data: z.array(
    z.object({ text: z.string(), tokenIds: z.array(count), finishReason: z.enum(['stop', 'length']) }),
  ),
  /** Tokens that all beams were fed; present after a beam search. */
  beamTokens: count.exactOptional(),
  ...resultFields,
});

export const storedForm = z.object({ tokenIds: z.boolean(), experts: z.boolean() });

export type TranslateJob = z.infer<typeof storedJob>;
export type TranslateResult = z.infer<typeof storedResult>;
export type TranslateForm = z.infer<typeof storedForm>;
