/** How a model writes an answer with reasoning and tool calls. Its template and its tokenizer tell. */
import { withinTime } from '../time-bound.js';
import type { TokenizerFile } from '../tokenizing/tokenizer-file.js';
import { alike, type CallFormName, marksIn, marksOf } from './call-forms.js';
import { triedCall } from './call-trial.js';
import { ChatTemplate } from './chat-template.js';
import { type ChatTemplates, templateName } from './template-files.js';
import { type SystemMessages, systemMessages } from './template-habits.js';

/** JSON types of arguments, by the names of the tool and of the argument. Others may be of any type. */
export type ArgumentTypes = Record<string, Record<string, string[]>>;

export type AnswerFormat = (
  | /** The harmony format: messages with a channel, such as `<|channel|>final<|message|>Hello.<|return|>`. */
  { kind: 'channels' }
  /** Plain text, in which marks may enclose reasoning and tool calls. */
  | {
      kind: 'tags';
      reasoning: boolean;
      /** Default: think. */
      reasoningForm?: ReasoningForm;
      toolCalls: boolean;
      /** How calls are written. Default: hermes, the most common form. */
      callForm?: CallFormName;
      /** Of the tools of a request, where the form does not tell texts from other values. */
      argumentTypes?: ArgumentTypes;
    }
) & {
  /** Whether a grammar demands the calls: what begins like a call is one, also where the answer is cut off. */
  boundCalls?: true;
};

export const CHANNEL_TOKENS = {
  start: '<|start|>',
  channel: '<|channel|>',
  constrain: '<|constrain|>',
  message: '<|message|>',
  end: '<|end|>',
  call: '<|call|>',
  return: '<|return|>',
} as const;

/** Around reasoning, by form. */
const REASONING_FORMS = {
  think: ['<think>', '</think>'],
  /** Gemma 4. */
  channel: ['<|channel>thought', '<channel|>'],
} as const;

export type ReasoningForm = keyof typeof REASONING_FORMS;
export const REASONING_FORM_NAMES = Object.keys(REASONING_FORMS) as [ReasoningForm, ...ReasoningForm[]];
export const reasoningTags = (form: ReasoningForm = 'think') => REASONING_FORMS[form];
/** The marks that reasoning may stand between: a tokenizer may have a token for each. */
export const REASONING_MARKS = Object.values(REASONING_FORMS).flatMap((tags) => marksIn(tags));

/** How the chat of a model works. */
export interface ChatFormat {
  answer: AnswerFormat;
  /** Whether a template knows the role. */
  developerRole: boolean;
  /** Field in which a template looks for the reasoning of earlier answers. */
  reasoningField: 'reasoning_content' | 'thinking';
  /** Where a template takes system messages. */
  systemMessages: SystemMessages;
  /** Whether ids of calls in a conversation must have nine letters and digits. */
  shortCallIds?: true;
}

export function chatFormat(
  templates: ChatTemplates,
  { added_tokens }: Pick<TokenizerFile, 'added_tokens'>,
): ChatFormat {
  const added = new Set((added_tokens ?? []).map(({ content }) => content));
  const template = Object.values(templates.texts).join('\n');
  const { start, channel, message, end } = CHANNEL_TOKENS;
  const harmony = [start, channel, message, end].every(
    (token) => added.has(token) && template.includes(token),
  );
  const { form, shortIds } = triedCall(templates);
  const reasoningForm = REASONING_FORM_NAMES.find((name) => {
    const tags = reasoningTags(name);
    return template.includes(tags[1]) || tags.every((tag) => added.has(tag));
  });
  const tags = {
    reasoning: reasoningForm !== undefined,
    ...(reasoningForm !== 'think' && reasoningForm && { reasoningForm }),
    toolCalls: form !== undefined,
    ...(form && { callForm: form }),
  };
  return {
    answer: harmony ? { kind: 'channels' } : { kind: 'tags', ...tags },
    developerRole: /['"]developer['"]/.test(template),
    reasoningField:
      template.includes('reasoning_content') || !template.includes('thinking')
        ? 'reasoning_content'
        : 'thinking',
    systemMessages: systemMessagesOf(templates),
    ...(shortIds && { shortCallIds: true }),
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
    : [...REASONING_MARKS, ...alike(answer.callForm ?? 'hermes').flatMap((form) => marksOf(form))];
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
