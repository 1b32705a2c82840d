/** The job and the result of embeddings, as they are sent between processes and stored in Redis. */
import { z } from 'zod';
import { count, MOST_STORED, resultFields, runFields } from '../shared/stored.js';

export const storedJob = z.object({
  kind: z.literal('embed'),
  inputs: z
    .array(z.union([z.string(), z.array(count)]))
    .min(1)
    .max(MOST_STORED),
  base64: z.boolean(),
  ...runFields,
});

export const storedResult = z.object({
  kind: z.literal('embed'),
  embeddings: z.array(z.array(z.number())),
  ...resultFields,
});

export const storedForm = z.object({ base64: z.boolean(), experts: z.boolean() });

export type EmbedJob = z.infer<typeof storedJob>;
export type EmbedResult = z.infer<typeof storedResult>;
export type EmbedForm = z.infer<typeof storedForm>;
