/** Converts a chat request into its job. */
import type { z } from 'zod';
import { SidaError } from '../../errors.js';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { prepareConversation } from '../shared/chat-request.js';
import { type ChatMessage, formatOf } from '../shared/conversation-schema.js';
import type { RequestLimits } from '../shared/request-checks.js';
import { stopsOf, withoutDrawnSeed } from '../shared/sampling.js';
import { streamUsageOf } from '../shared/stream-options.js';
import type { PreparedJob } from '../task.js';
import type { ChatJob } from './job.js';
import type { ChatRequest } from './schema.js';

export type ChatBody = z.infer<typeof ChatRequest>;

export function prepareChat(
  request: ChatBody,
  model: ModelInfo,
  limits: RequestLimits,
): PreparedJob<ChatJob> {
  const tools = request.tools ?? [];
  const work = prepareConversation(
    {
      ...request,
      messages: request.messages.map(withToolCalls),
      messagesField: 'messages',
      contentFields: request.messages.map((_, at) => `messages.${at}.content`),
      tools,
      toolFields: tools.map((_, at) => `tools.${at}.function`),
      maxTokens: request.max_completion_tokens ?? request.max_tokens ?? null,
      maxTokensField: request.max_completion_tokens == null ? 'max_tokens' : 'max_completion_tokens',
      logprobs: logprobsOf(request),
      stop: stopsOf(request),
      format: { value: formatOf(request.response_format), param: 'response_format' },
    },
    model,
    limits,
  );
  const job: ChatJob = { kind: 'chat', ...work, showTokenIds: request.return_token_ids ?? false };
  const streamUsage = streamUsageOf(request);
  // The same limit in another field makes the same job, and the bytes follow from the conversation.
  const { maxTokensField: _, conversationBytes: __, ...ran } = job;
  return { job, asked: withoutDrawnSeed(ran, request), streamUsage };
}

/** A `function_call` is a call of a tool, and the role `function` has its result. */
function withToolCalls({ role, function_call: call, ...message }: ChatBody['messages'][number]): ChatMessage {
  const calls = call == null ? message.tool_calls : [{ function: call }];
  return { ...message, role: role === 'function' ? 'tool' : role, tool_calls: calls };
}

function logprobsOf({ logprobs, top_logprobs: top }: ChatBody): number | null {
  if (logprobs === true) return top ?? 0;
  if (top == null || top === 0) return null;
  const message = 'The field "top_logprobs" needs "logprobs" to be true';
  throw new SidaError({ code: 'invalid_request', message, param: 'top_logprobs' });
}
