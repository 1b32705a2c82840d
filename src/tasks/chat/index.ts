/** Answers conversations, in the format of OpenAI's chat completions. */
import { ChatChoices, chatInputs, chatTexts, chatTokens } from '../shared/chat-work.js';
import type { Task } from '../task.js';
import { ChatAnswers } from './answer.js';
import { type ChatForm, type ChatJob, type ChatResult, storedForm, storedJob, storedResult } from './job.js';
import { type ChatBody, prepareChat } from './request.js';
import { ChatAnswer, ChatRequest, IGNORED } from './schema.js';

const FIELDS = { conversation: 'messages', format: 'response_format' };

export const chat: Task<ChatBody, ChatJob, ChatResult, ChatForm> = {
  kind: 'chat',
  route: {
    path: '/v1/chat/completions',
    summary: 'Answers a conversation; with `stream` as server-sent events that end with `[DONE]`',
    answer: 'The choices; chunks of a stream have a `delta` in place of the `message`',
    ignores: IGNORED,
  },
  jobType: 'chat',
  schemas: { request: ChatRequest, answer: ChatAnswer },
  stored: { job: storedJob, result: storedResult, form: storedForm },
  prepare: prepareChat,
  form: ({ logprobs, showTokenIds = false, explain = false, tokenExperts }) => ({
    logprobs: logprobs !== null,
    tokenIds: showTokenIds,
    experts: explain,
    ...(tokenExperts && { tokenExperts }),
  }),
  answers: (about) => new ChatAnswers(about),
  tokens: chatTokens,
  engine: {
    runs: 'model',
    texts: chatTexts,
    inputs: (job, limits, ids) => chatInputs(job, limits, ids, FIELDS),
    results: (job, limits, inputs) => new ChatChoices(job, limits, inputs),
  },
};
