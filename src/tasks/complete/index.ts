/** Generates continuations of prompts, in OpenAI's format. */
import type { Task } from '../task.js';
import { CompletionAnswers } from './answer.js';
import {
  type CompleteForm,
  type CompleteJob,
  type CompleteResult,
  storedForm,
  storedJob,
  storedResult,
} from './job.js';
import { type CompleteBody, prepareComplete } from './request.js';
import { CompletionAnswer, CompletionRequest, IGNORED } from './schema.js';
import { CompleteResults, completeInputs, completeTexts, completeTokens } from './work.js';

export const complete: Task<CompleteBody, CompleteJob, CompleteResult, CompleteForm> = {
  kind: 'complete',
  route: {
    path: '/v1/completions',
    summary: 'Completes each prompt; with `stream` as server-sent events that end with `[DONE]`',
    answer: 'One choice for each prompt',
    ignores: IGNORED,
  },
  jobType: 'completion',
  schemas: { request: CompletionRequest, answer: CompletionAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareComplete,
  form: ({ logprobs, showTokenIds = false, explain = false, tokenExperts }) => ({
    logprobs,
    tokenIds: showTokenIds,
    experts: explain,
    ...(tokenExperts && { tokenExperts }),
  }),
  answers: (about) => new CompletionAnswers(about),
  tokens: completeTokens,
  engine: {
    runs: 'model',
    texts: completeTexts,
    inputs: completeInputs,
    results: (job, limits, inputs) => new CompleteResults(job, limits, inputs),
  },
};
