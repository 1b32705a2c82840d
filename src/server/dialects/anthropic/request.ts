/** Converts requests into jobs of the chat and of the tokenizer. */
import type { ModelInfo } from '../../../protocol/engine-messages.js';
import type { ChatJob } from '../../../tasks/chat/job.js';
import { prepareConversation } from '../../../tasks/shared/chat-request.js';
import type { ChatWork } from '../../../tasks/shared/chat-work.js';
import type { ChatTool, ToolChoice } from '../../../tasks/shared/conversation-schema.js';
import type { RequestLimits } from '../../../tasks/shared/request-checks.js';
import type { TokenizeJob } from '../../../tasks/tokenize/index.js';
import { thinkingVariables } from '../thinking.js';
import { chatMessages } from './messages.js';
import type { CountBody, MessagesBody } from './schema.js';

export function messagesJob(body: MessagesBody, model: ModelInfo, limits: RequestLimits): ChatJob {
  return { kind: 'chat', ...workOf(body, model, limits) };
}

/** Counts the tokens of the prompt without running the model. */
export function countJob(body: CountBody, model: ModelInfo, limits: RequestLimits): TokenizeJob {
  const { conversation } = workOf(body, model, limits);
  return { kind: 'tokenize', inputs: [], conversation, addSpecialTokens: false };
}

/** Whether the model is to reason. */
export function thinks({ thinking }: CountBody): boolean {
  return thinking != null && thinking.type !== 'disabled';
}

function workOf(body: CountBody & Partial<MessagesBody>, model: ModelInfo, limits: RequestLimits): ChatWork {
  const tools = body.tools ?? [];
  const { output_config: output } = body;
  const schema = output?.format ?? body.output_format;
  return prepareConversation(
    {
      ...chatMessages(body),
      messagesField: 'messages',
      tools: tools.map(functionOf),
      toolFields: tools.map((_, at) => `tools.${at}`),
      tool_choice: choiceOf(body.tool_choice),
      reasoning_effort: effortOf(output?.effort),
      chat_template_kwargs: thinkingVariables(thinks(body)),
      temperature: body.temperature,
      top_p: body.top_p,
      top_k: body.top_k,
      stream: body.stream,
      maxTokens: body.max_tokens ?? null,
      maxTokensField: 'max_tokens',
      cutToContext: true,
      logprobs: null,
      stop: body.stop_sequences ?? [],
      format: { value: schema, param: output?.format == null ? 'output_format' : 'output_config.format' },
    },
    model,
    limits,
  );
}

function functionOf({
  name,
  description,
  input_schema,
  strict,
}: NonNullable<CountBody['tools']>[number]): ChatTool {
  return {
    type: 'function',
    function: {
      name,
      ...(description != null && { description }),
      parameters: input_schema,
      ...(strict != null && { strict }),
    },
  };
}

function choiceOf(choice: CountBody['tool_choice']): ToolChoice {
  if (choice == null || choice.type === 'auto' || choice.type === 'none') return choice?.type;
  if (choice.type === 'any') return 'required';
  return { type: 'function', function: { name: choice.name } };
}

/** Templates know no more than "high". */
function effortOf(effort: NonNullable<CountBody['output_config']>['effort']) {
  return effort === 'xhigh' || effort === 'max' ? 'high' : effort;
}
