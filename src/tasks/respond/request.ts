/** Converts a request of /v1/responses into its job. */
import type { z } from 'zod';
import type { ModelInfo } from '../../protocol/engine-messages.js';
import { prepareConversation } from '../shared/chat-request.js';
import type { ChatTool } from '../shared/conversation-schema.js';
import type { RequestLimits } from '../shared/request-checks.js';
import { withoutDrawnSeed } from '../shared/sampling.js';
import type { PreparedJob } from '../task.js';
import { messagesOf } from './input-items.js';
import type { RespondJob } from './job.js';
import type { ResponsesRequest } from './schema.js';

export type RespondBody = z.infer<typeof ResponsesRequest>;

export function prepareRespond(
  request: RespondBody,
  model: ModelInfo,
  limits: RequestLimits,
): PreparedJob<RespondJob> {
  const offered = (request.tools ?? [])
    .map((tool, at) => ({ tool, field: `tools.${at}` }))
    .filter(({ tool }) => tool.type === 'function');
  const { messages, contentFields } = messagesOf(request.input, request.instructions);
  const maxTokens = request.max_output_tokens ?? null;
  const work = prepareConversation(
    {
      ...request,
      messages,
      messagesField: 'input',
      contentFields,
      tools: offered.map(({ tool }) => chatTool(tool)),
      toolFields: offered.map(({ field }) => field),
      reasoning_effort: request.reasoning?.effort,
      maxTokens,
      maxTokensField: 'max_output_tokens',
      logprobs: null,
      stop: [],
      format: { value: request.text?.format, param: 'text.format' },
    },
    model,
    limits,
  );
  const job: RespondJob = {
    kind: 'respond',
    ...work,
    echo: echoOf(
      request,
      model,
      offered.map(({ tool }) => tool),
    ),
  };
  const { conversationBytes: _, ...ran } = job;
  return { job, asked: withoutDrawnSeed(ran, request) };
}

/** /v1/responses has the fields of a function beside its type. */
function chatTool({ type, ...own }: { type: string } & Record<string, unknown>): ChatTool {
  return { type, function: own } as unknown as ChatTool;
}

/** Fields that clients look for in an answer, with their defaults. */
function echoOf(request: RespondBody, { sampling }: ModelInfo, tools: unknown[]): Record<string, unknown> {
  return {
    background: false,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    metadata: request.metadata ?? {},
    parallel_tool_calls: true,
    reasoning: { effort: request.reasoning?.effort ?? null, summary: null },
    temperature: request.temperature ?? sampling?.temperature ?? 0,
    text: { format: request.text?.format ?? { type: 'text' } },
    tool_choice: request.tool_choice ?? 'auto',
    tools,
    top_p: request.top_p ?? sampling?.topP ?? 1,
    truncation: 'disabled',
    user: request.user ?? null,
  };
}
