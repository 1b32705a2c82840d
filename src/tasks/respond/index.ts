/** Answers conversations in the format of OpenAI's responses. They run as a chat does. */
import { ChatChoices, chatInputs, chatTexts, chatTokens } from '../shared/chat-work.js';
import { heldBytes } from '../shared/token-estimates.js';
import type { Task } from '../task.js';
import { ResponseAnswers } from './answer.js';
import {
  type RespondForm,
  type RespondJob,
  type RespondResult,
  storedForm,
  storedJob,
  storedResult,
} from './job.js';
import { prepareRespond, type RespondBody } from './request.js';
import { IGNORED, ResponseAnswer, ResponsesRequest } from './schema.js';

const FIELDS = { conversation: 'input', format: 'text.format' };

export const respond: Task<RespondBody, RespondJob, RespondResult, RespondForm> = {
  kind: 'respond',
  route: {
    path: '/v1/responses',
    summary:
      'Answers a conversation in items; with `stream` as server-sent events that are named by their type',
    answer: 'The response; nothing of it is kept',
    ignores: IGNORED,
    namedEvents: true,
  },
  schemas: { request: ResponsesRequest, answer: ResponseAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareRespond,
  form: ({ echo, explain = false }) => ({ echo, experts: explain }),
  answers: (about) => new ResponseAnswers(about),
  tokens: {
    ...chatTokens,
    bytes: (job) => chatTokens.bytes(job) + heldBytes([JSON.stringify(job.echo)]),
  },
  engine: {
    runs: 'model',
    texts: chatTexts,
    inputs: (job, limits, ids) => chatInputs(job, limits, ids, FIELDS),
    results: (job, limits, inputs) => new ChatChoices(job, limits, inputs),
  },
};
