/** How a model writes an answer with reasoning and tool calls. Its template and its tokenizer tell. */
import { withinTime } from '../time-bound.js';
import type { TokenizerFile } from '../tokenizing/tokenizer-file.js';
import { ChatTemplate } from './chat-template.js';
import { type ChatTemplates, templateName } from './template-files.js';
import { type SystemMessages, systemMessages } from './template-habits.js';

export type AnswerFormat =
  /** The harmony format: messages with a channel, such as `<|channel|>final<|message|>Hello.<|return|>`. */
  | { kind: 'channels' }
  /** Plain text, in which tags may enclose reasoning and tool calls. */
  | { kind: 'tags'; reasoning: boolean; toolCalls: boolean };

export const CHANNEL_TOKENS = {
  start: '<|start|>',
  channel: '<|channel|>',
  constrain: '<|constrain|>',
  message: '<|message|>',
  end: '<|end|>',
  call: '<|call|>',
  return: '<|return|>',
} as const;

export const REASONING_TAGS = ['<think>', '</think>'] as const;
/** Around `{"name": …, "arguments": …}`. */
export const TOOL_CALL_TAGS = ['<tool_call>', '</tool_call>'] as const;

/** How the chat of a model works. */
export interface ChatFormat {
  answer: AnswerFormat;
  /** Whether a template knows the role. */
  developerRole: boolean;
  /** Field in which a template looks for the reasoning of earlier answers. */
  reasoningField: 'reasoning_content' | 'thinking';
  /** Where a template takes system messages. */
  systemMessages: SystemMessages;
}

export function chatFormat(
  templates: ChatTemplates,
  { added_tokens }: Pick<TokenizerFile, 'added_tokens'>,
): ChatFormat {
  const added = new Set((added_tokens ?? []).map(({ content }) => content));
  const template = Object.values(templates.texts).join('\n');
  return {
    answer: answerFormat(template, added),
    developerRole: /['"]developer['"]/.test(template),
    reasoningField:
      template.includes('reasoning_content') || !template.includes('thinking')
        ? 'reasoning_content'
        : 'thinking',
    systemMessages: systemMessagesOf(templates),
  };
}

/** Time for a few renders of short conversations. */
const TRIAL_MS = 1_000;

/** A template that cannot be used says so at the first conversation. */
function systemMessagesOf(templates: ChatTemplates): SystemMessages {
  const text = templates.texts[templateName(templates, false) ?? ''];
  if (text === undefined) return 'anywhere';
  try {
    const tried = () => systemMessages(new ChatTemplate(text, templates.variables));
    return withinTime(TRIAL_MS, 'rendering system messages', tried);
  } catch {
    return 'anywhere';
  }
}

function answerFormat(template: string, added: ReadonlySet<string>): AnswerFormat {
  const { start, channel, message, end } = CHANNEL_TOKENS;
  if ([start, channel, message, end].every((token) => added.has(token) && template.includes(token)))
    return { kind: 'channels' };
  const writes = (tags: readonly string[]) => tags.every((tag) => template.includes(tag));
  return {
    kind: 'tags',
    reasoning: template.includes(REASONING_TAGS[1]) || REASONING_TAGS.every((tag) => added.has(tag)),
    // Some models write calls as XML between the same tags.
    toolCalls: writes(TOOL_CALL_TAGS) && !template.includes('<function='),
  };
}

/** Stands before a token of the harmony format in an answer's text, so that no other text looks like one. */
export const CONTROL = '\ufdd0';

/** The tokens that an answer's text must show, though they may be special: their texts by id. */
function shownTokens(
  { answer }: ChatFormat,
  { added_tokens }: Pick<TokenizerFile, 'added_tokens'>,
): Map<number, string> {
  const channels = answer.kind === 'channels';
  const names: readonly string[] = channels
    ? Object.values(CHANNEL_TOKENS)
    : [...REASONING_TAGS, ...TOOL_CALL_TAGS];
  const shown = (added_tokens ?? []).filter(({ content }) => names.includes(content));
  return new Map(shown.map(({ content, id }) => [id, channels ? CONTROL + content : content]));
}

/** The texts of shown tokens as the tokenizer has them. */
export function controlsOf(shown: ReadonlyMap<number, string>): Map<number, string> {
  return new Map([...shown].map(([id, text]) => [id, text.replace(CONTROL, '')]));
}

/** What is known of a model's chat outside of the tokenizer thread. */
export interface ModelChat {
  format: ChatFormat;
  /** As `shownTokens` gives them. */
  shown: ReadonlyMap<number, string>;
}

export function modelChat(templates: ChatTemplates, file: TokenizerFile): ModelChat {
  const format = chatFormat(templates, file);
  return { format, shown: shownTokens(format, file) };
}
