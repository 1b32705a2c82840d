/** A task that exists only in tests. Apart from its entry in the list, this file is all that adding a task takes. */
import { z } from 'zod';
import { checkedInput, requireTexts } from '../../../src/tasks/shared/prepared-input.js';
import { resultFields, runFields, texts } from '../../../src/tasks/shared/stored.js';
import { inputTokens, reservedTokens } from '../../../src/tasks/shared/token-estimates.js';
import type { Task } from '../../../src/tasks/task.js';

const request = z
  .strictObject({
    model: z.string().optional(),
    texts: z.array(z.string()).min(1),
    stream: z.boolean().optional(),
  })
  .meta({ id: 'NextTokenRequest' });
const answer = z
  .object({ object: z.literal('next_tokens'), ids: z.array(z.int()), lengths: z.array(z.int()) })
  .meta({ id: 'NextTokens' });
const storedJob = z.object({ kind: z.literal('next'), texts, stream: z.boolean(), ...runFields });
const storedResult = z.object({
  kind: z.literal('next'),
  found: z.array(z.object({ id: z.int(), length: z.int() })),
  ...resultFields,
});

export type Job = z.infer<typeof storedJob>;
export type Result = z.infer<typeof storedResult>;

/** Returns the next token of each text, and the length of the text. */
export const nextToken: Task<z.infer<typeof request>, Job, Result, { experts: boolean }> = {
  kind: 'next',
  route: { path: '/v1/next', summary: 'The next token of each text', answer: 'One id for each text' },
  jobType: 'next',
  schemas: { request, answer },
  stored: { job: storedJob, result: storedResult, form: z.object({ experts: z.boolean() }) },
  prepare: (body) => ({ job: { kind: 'next', texts: body.texts, stream: body.stream ?? false } }),
  form: ({ explain = false }) => ({ experts: explain }),
  answers: () => ({
    whole: ({ found }) => ({
      object: 'next_tokens',
      ids: found.map(({ id }) => id),
      lengths: found.map(({ length }) => length),
    }),
    chunks: ({ index, tokenIds }) => [{ index, id: tokenIds[0] }],
  }),
  tokens: {
    input: (job) => inputTokens(job.texts),
    bytes: ({ texts }) => texts.join('').length,
    cost: (job) => ({ known: job.texts.length, estimated: reservedTokens(job.texts) }),
    texts: (job) => job.texts,
    used: (_job, { promptTokens }) => promptTokens,
  },
  engine: {
    runs: 'model',
    texts(job, limits) {
      requireTexts(limits, 'texts');
      return job.texts.map((text) => ({ text, special: true }));
    },
    inputs: (_job, limits, ids) =>
      ids.map((tokens, index) => {
        const work = { kind: 'generate', maxTokens: 1, logprobs: null, choices: [null] } as const;
        return checkedInput({ tokens, work }, 'texts', `Text ${index}`, limits);
      }),
    results(job) {
      const found: Result['found'] = [];
      return {
        token(input, { id }) {
          found[input] = { id, length: job.texts[input]!.length };
          return { index: input, text: '', tokenIds: [id], logprobs: null, finishReason: 'length' };
        },
        finish: () => ({ found, completionTokens: found.length }),
      };
    },
  },
};
