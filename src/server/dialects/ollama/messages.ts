/** Converts the messages of Ollama's API into the messages of a chat. */
import type { ChatMessage } from '../../../tasks/shared/conversation-schema.js';
import { exactJson } from '../../../text/exact-json.js';
import type { OllamaMessage } from './schema.js';

interface OpenCall {
  id: string;
  name: string;
}

/** Results name at most the function. Templates need ids, so calls are numbered and each result gets one's number. */
export function chatMessages(messages: readonly OllamaMessage[]): ChatMessage[] {
  let calls = 0;
  let open: OpenCall[] = [];
  const take = (id: string | null | undefined, name: string | null | undefined): string | undefined => {
    const found = open.find((call) => call.id === id) ?? open.find((call) => call.name === name) ?? open[0];
    open = open.filter((call) => call !== found);
    return found?.id;
  };
  return messages.map(({ role, content, thinking, tool_calls: called, tool_name, tool_call_id }) => {
    if (role === 'tool') {
      const id = take(tool_call_id, tool_name);
      return {
        role,
        content: content ?? '',
        ...(tool_name != null && { name: tool_name }),
        ...(id !== undefined && { tool_call_id: id }),
      };
    }
    const ids = (called ?? []).map(({ id }) => id ?? callId(calls++));
    open = (called ?? []).map((call, at) => ({ id: ids[at]!, name: call.function.name }));
    return {
      role,
      content: (content ?? '') === '' && ids.length > 0 ? null : (content ?? ''),
      ...(thinking != null && { reasoning_content: thinking }),
      ...(called != null &&
        called.length > 0 && {
          tool_calls: called.map((call, at) => ({
            id: ids[at]!,
            type: 'function' as const,
            function: { name: call.function.name, arguments: exactJson(call.function.arguments) },
          })),
        }),
    };
  });
}

/** Nine letters and digits, as Mistral's templates demand. */
export function callId(number: number): string {
  return `call${String(number).padStart(5, '0')}`;
}
