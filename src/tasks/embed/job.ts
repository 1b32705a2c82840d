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
  /** As `textOf` writes them: lists of numbers take processes many times longer to pass on. */
  embeddings: z.array(z.string()),
  ...resultFields,
});

export const storedForm = z.object({ base64: z.boolean(), experts: z.boolean() });

export type EmbedJob = z.infer<typeof storedJob>;
export type EmbedResult = z.infer<typeof storedResult>;
export type EmbedForm = z.infer<typeof storedForm>;

/** The float32 values in base64, little-endian, as every machine that this runs on is. */
export function textOf(values: readonly number[]): string {
  return Buffer.from(Float32Array.from(values).buffer).toString('base64');
}

export function valuesOf(text: string): number[] {
  const bytes = Buffer.from(text, 'base64');
  const values: number[] = [];
  for (let at = 0; at < bytes.length; at += 4) values.push(bytes.readFloatLE(at));
  return values;
}

/** The values of a text, scaled to length 1. */
export function ofLengthOne(text: string): number[] {
  const values = valuesOf(text);
  const length = Math.hypot(...values);
  return length === 0 ? values : values.map((value) => Math.fround(value / length));
}
