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

export interface ParsedAnswer {
  reasoning: string;
  content: string;
  calls: { name: string; arguments: string }[];
}

export function parseAnswer(format: AnswerFormat, tools: boolean, text: string): ParsedAnswer {
  const parser = answerParser(format, tools);
  const answer: ParsedAnswer = { reasoning: '', content: '', calls: [] };
  for (const part of [...parser.push(text), ...parser.finish()]) {
    if (part.kind === 'call') answer.calls[part.call] = { name: part.name, arguments: '' };
    else if (part.kind === 'arguments') answer.calls[part.call]!.arguments += part.text;
    else answer[part.kind] += part.text;
  }
  return answer;
}
