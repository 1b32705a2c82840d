/**
 * Schema parts of jobs and results that are stored in Redis. Anyone with write access to Redis must not be able to
 * break a server or a worker.
 */

import { z } from 'zod';
import { ROUTING_MODES } from '../../config/engine-options.js';
import type { ExpertCost } from '../../protocol/expert-cost.js';
import type { Quote } from '../../protocol/quote.js';
import { type AnswerFormat, REASONING_FORM_NAMES } from '../../text/chat/answer-format.js';
import type { AnswerPart } from '../../text/chat/answer-parts.js';
import { CALL_FORM_NAMES } from '../../text/chat/call-forms.js';

export const count = z.int().min(0);
const amount = z.number().min(0);

/** Far more than a request may contain. */
export const MOST_STORED = 4096;
export const texts = z.array(z.string()).max(MOST_STORED);

/** Fields of every job that runs the model. */
export const runFields = {
  explain: z.boolean().exactOptional(),
  tokenExperts: z.boolean().exactOptional(),
  quoted: z.boolean().exactOptional(),
  maxSeconds: amount.exactOptional(),
  routing: z.object({ mode: z.enum(ROUTING_MODES).nullable(), k: z.int().min(1).nullable() }).exactOptional(),
  owner: z.string().exactOptional(),
};

const quantiles = z.object({ p50: amount, p90: amount });

const storedQuote: z.ZodType<Quote> = z.object({
  promptTokens: count,
  maxTokens: count,
  experts: quantiles,
  bytes: quantiles,
  firstSeconds: quantiles,
  seconds: quantiles,
  queueSeconds: amount,
  aloneSeconds: amount,
  jobsAhead: count,
  measured: count,
});

/** Fields of every result. The names of expert counts are not checked, because an answer only repeats them. */
export const resultFields = {
  promptTokens: count,
  cachedTokens: count.exactOptional(),
  completionTokens: count,
  experts: z.record(z.string(), z.number()) as unknown as z.ZodType<ExpertCost>,
  quote: storedQuote.exactOptional(),
  timing: z.object({
    tokenizeMs: amount,
    queueMs: z.number(),
    promptMs: amount.exactOptional(),
    inferenceMs: amount,
  }),
};

export const sampling = z.object({
  temperature: z.number().gt(0),
  topP: z.number().gt(0).max(1),
  topK: count,
  minP: z.number().min(0).max(1),
  seed: z.int(),
});

const tokenLogprobs = z.object({
  id: count,
  token: z.string(),
  offset: count,
  /** Null for the first token of a prompt. */
  logprob: z.number().nullable(),
  top: z.array(z.object({ id: count, token: z.string(), logprob: z.number() })),
});

const boundCalls = z.literal(true).exactOptional();

export const storedAnswerFormat: z.ZodType<AnswerFormat> = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('channels'), boundCalls }),
  z.object({
    kind: z.literal('tags'),
    reasoning: z.boolean(),
    reasoningForm: z.enum(REASONING_FORM_NAMES).exactOptional(),
    toolCalls: z.boolean(),
    callForm: z.enum(CALL_FORM_NAMES).exactOptional(),
    argumentTypes: z.record(z.string(), z.record(z.string(), texts)).exactOptional(),
    boundCalls,
  }),
]);

const storedParts: z.ZodType<AnswerPart[]> = z.array(
  z.discriminatedUnion('kind', [
    z.object({ kind: z.enum(['reasoning', 'content']), text: z.string() }),
    z.object({ kind: z.literal('call'), call: count, name: z.string() }),
    z.object({ kind: z.literal('arguments'), call: count, text: z.string() }),
  ]),
);

/** What a generated text and the answer of a conversation have. Choices are numbered prompt by prompt. */
const choiceFields = {
  index: count,
  /** Generated tokens only, including the end token. */
  tokenIds: z.array(count),
  finishReason: z.enum(['stop', 'length']),
  /** The stop string that ended it; absent if none did. */
  stop: z.string().exactOptional(),
  logprobs: z.array(tokenLogprobs).nullable(),
  /** Of each of the tokens; absent if the request did not ask for them. */
  experts: z
    .array(
      z.object({
        token: z.string(),
        layers: z.array(
          z.object({ layer: z.string(), chosen: z.array(count), predicted: z.array(count).nullable() }),
        ),
      }),
    )
    .exactOptional(),
};

export const storedChoice = z.object({ ...choiceFields, text: z.string() });
export const storedAnswer = z.object({ ...choiceFields, parts: storedParts });

/** What a generated text and the answer of a conversation have in common. */
export type ChoiceFields = Omit<StoredChoice, 'text'>;
export type StoredChoice = z.infer<typeof storedChoice>;
export type StoredAnswer = z.infer<typeof storedAnswer>;

/** A delta of a stream. */
export const storedDelta = z.object({
  index: count,
  text: z.string(),
  parts: storedParts.exactOptional(),
  tokenIds: z.array(count),
  logprobs: z.array(tokenLogprobs).nullable(),
  finishReason: z.enum(['stop', 'length']).nullable(),
  promptTokens: count.exactOptional(),
});
