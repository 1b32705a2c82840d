/** Anthropic's Messages API, translated onto the chat. */
import type { Response } from 'express';
import { answerRequest } from '../../answer-request.js';
import { bodyRoute } from '../../route.js';
import { NAMED_EVENTS } from '../../stream-answer.js';
import type { Dialect } from '../dialect.js';
import { MessageAnswers } from './answer.js';
import { errorBody } from './error.js';
import { countJob, messagesJob, thinks } from './request.js';
import {
  AnthropicError,
  CountAnswer,
  CountRequest,
  IGNORED,
  MessageAnswer,
  type MessagesBody,
  MessagesRequest,
} from './schema.js';

const messages = bodyRoute({
  method: 'post',
  path: '/v1/messages',
  scope: 'infer',
  summary: "Answers a conversation in the shape of Anthropic's messages; with `stream` as named events",
  body: MessagesRequest,
  quotes: true,
  ignores: IGNORED,
  answers: { 200: { description: 'The message', schema: MessageAnswer } },
  error: AnthropicError,
  handle(context, _req, res, body) {
    const id = named(res);
    return answerRequest(
      context,
      res,
      body.model,
      (model, limits) => {
        const job = messagesJob(body, model, limits);
        const answers = new MessageAnswers({
          model: model.name,
          id,
          createdMs: Date.now(),
          maxTokens: body.max_tokens,
          thinking: thinks(body) && body.thinking?.display !== 'omitted',
          oneCall: hasOneCall(body),
        });
        return { job, answers };
      },
      NAMED_EVENTS,
    );
  },
});

const countTokens = bodyRoute({
  method: 'post',
  path: '/v1/messages/count_tokens',
  scope: 'infer',
  summary: 'Tokens of the prompt that a conversation becomes',
  body: CountRequest,
  ignores: IGNORED,
  answers: { 200: { description: 'The number of tokens', schema: CountAnswer } },
  error: AnthropicError,
  handle(context, _req, res, body) {
    named(res);
    return answerRequest(
      context,
      res,
      body.model,
      (model, limits) => ({
        job: countJob(body, model, limits),
        answers: { whole: ({ promptTokens }) => ({ input_tokens: promptTokens }) },
      }),
      NAMED_EVENTS,
    );
  },
});

function hasOneCall({ tool_choice: choice }: MessagesBody): boolean {
  return choice != null && choice.type !== 'none' && choice.disable_parallel_tool_use === true;
}

/** Anthropic's clients look for the request id in another header. */
function named(res: Response): string {
  const id = res.locals.requestId as string;
  res.setHeader('request-id', id);
  return id;
}

export const anthropic: Dialect = {
  prefix: '/v1/messages',
  routes: [messages, countTokens],
  error: (error, res) => errorBody(error, named(res)),
};
