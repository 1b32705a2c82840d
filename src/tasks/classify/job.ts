/** The job and the result of a classification, as they are sent between processes and stored in Redis. */
import { z } from 'zod';
import { resultFields, runFields, texts } from '../shared/stored.js';

export const storedJob = z.object({
  kind: z.literal('classify'),
  inputs: texts.min(1),
  /** Scored as continuations of each input. */
  labels: texts.min(1),
  ...runFields,
});

export const storedResult = z.object({
  kind: z.literal('classify'),
  /** One entry for each input; `scores` is the softmax over the labels' log-probabilities. */
  data: z.array(z.object({ label: z.string(), scores: z.record(z.string(), z.number()) })),
  ...resultFields,
});

export const storedForm = z.object({ experts: z.boolean() });

export type ClassifyJob = z.infer<typeof storedJob>;
export type ClassifyResult = z.infer<typeof storedResult>;
export type ClassifyForm = z.infer<typeof storedForm>;
export type Classification = ClassifyResult['data'][number];
