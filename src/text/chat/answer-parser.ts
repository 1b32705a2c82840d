/** Splits a model's answer, while it arrives, into reasoning, content and tool calls. */
import type { AnswerFormat } from './answer-format.js';
import type { AnswerParser } from './answer-parts.js';
import { ChannelsParser } from './channels-parser.js';
import { TagsParser } from './tags-parser.js';

/** `tools`: whether the request has tools that the model may call. Otherwise calls are content. */
export function answerParser(format: AnswerFormat, tools: boolean): AnswerParser {
  if (format.kind === 'channels') return new ChannelsParser(tools, format.boundCalls);
  return new TagsParser(format, tools);
}
