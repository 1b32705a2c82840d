/** Converts requests into jobs of the chat, and of completions where the model gets the prompt without a template. */
import type { ModelInfo } from '../../../protocol/engine-messages.js';
import type { ChatJob } from '../../../tasks/chat/job.js';
import type { CompleteJob } from '../../../tasks/complete/job.js';
import { prepareComplete } from '../../../tasks/complete/request.js';
import { prepareConversation } from '../../../tasks/shared/chat-request.js';
import type { ChatMessage } from '../../../tasks/shared/conversation-schema.js';
import type { RequestLimits } from '../../../tasks/shared/request-checks.js';
import type { StructureFormat } from '../../../tasks/shared/structure.js';
import { thinkingVariables } from '../thinking.js';
import { chatMessages } from './messages.js';
import { mostTokens, samplingFields } from './options.js';
import type { ChatBody, GenerateBody } from './schema.js';

export function chatJob(body: ChatBody, model: ModelInfo, limits: RequestLimits): ChatJob {
  const messages = chatMessages(body.messages ?? []);
  const fields = messages.map((_, at) => `messages.${at}.content`);
  return conversationJob({ ...body, messages, fields }, model, limits);
}

export function generateJob(
  body: GenerateBody,
  model: ModelInfo,
  limits: RequestLimits,
): ChatJob | CompleteJob {
  if (body.raw === true || (model.chat === null && !body.system)) return rawJob(body, model, limits);
  const messages: ChatMessage[] = [{ role: 'user', content: body.prompt ?? '' }];
  const fields = ['prompt'];
  if (body.system) {
    messages.unshift({ role: 'system', content: body.system });
    fields.unshift('system');
  }
  return conversationJob({ ...body, messages, fields }, model, limits);
}

interface Conversation extends Omit<GenerateBody, 'prompt' | 'system' | 'raw'> {
  messages: ChatMessage[];
  fields: string[];
  tools?: ChatBody['tools'];
}

function conversationJob(body: Conversation, model: ModelInfo, limits: RequestLimits): ChatJob {
  const tools = body.tools ?? [];
  const { think, options } = body;
  const work = prepareConversation(
    {
      messages: body.messages,
      messagesField: 'messages',
      contentFields: body.fields,
      tools,
      toolFields: tools.map((_, at) => `tools.${at}.function`),
      ...(think != null && { chat_template_kwargs: thinkingVariables(think !== false) }),
      ...(typeof think === 'string' && { reasoning_effort: think }),
      ...samplingFields(options),
      stream: body.stream ?? true,
      maxTokens: mostTokens(options),
      maxTokensField: 'options.num_predict',
      cutToContext: true,
      logprobs: logprobsOf(body),
      stop: options?.stop ?? [],
      format: { value: formatOf(body.format), param: 'format' },
    },
    model,
    limits,
  );
  return { kind: 'chat', ...work };
}

function rawJob(body: GenerateBody, model: ModelInfo, limits: RequestLimits): CompleteJob {
  const { options, prompt } = body;
  const format = formatOf(body.format);
  const { job } = prepareComplete(
    {
      prompt: prompt ?? '',
      ...samplingFields(options),
      max_tokens: Math.min(mostTokens(options) ?? model.contextTokens, model.contextTokens),
      stream: body.stream ?? true,
      logprobs: logprobsOf(body),
      ...(format?.type === 'json_object' && { response_format: { type: 'json_object' } }),
      ...(format?.type === 'json_schema' && {
        response_format: { type: 'json_schema', json_schema: { name: 'format', schema: format.schema } },
      }),
    },
    model,
    limits,
  );
  return { ...job, stop: options?.stop ?? [], cutToContext: true };
}

function logprobsOf({ logprobs, top_logprobs: top }: Pick<ChatBody, 'logprobs' | 'top_logprobs'>) {
  return logprobs === true ? (top ?? 0) : null;
}

type Format =
  | (StructureFormat & { type: 'json_schema'; schema: Record<string, unknown> })
  | { type: 'json_object' };

function formatOf(format: ChatBody['format']): Format | null {
  if (format == null || format === '') return null;
  return format === 'json' ? { type: 'json_object' } : { type: 'json_schema', schema: format };
}
