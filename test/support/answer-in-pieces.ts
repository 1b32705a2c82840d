import type { AnswerFormat } from '../../src/text/chat/answer-format.js';
import { answerParser, type ParsedAnswer } from '../../src/text/chat/answer-parser.js';

/** What a parser finds in an answer that is pushed in pieces of the given lengths. */
export function answerInPieces(
  format: AnswerFormat,
  tools: boolean,
  text: string,
  lengths: number[],
): ParsedAnswer {
  const parser = answerParser(format, tools);
  const found: ParsedAnswer = { reasoning: '', content: '', calls: [] };
  const parts = [];
  for (let at = 0, i = 0; at < text.length; i += 1) {
    const length = lengths[i % lengths.length]!;
    parts.push(...parser.push(text.slice(at, at + length)));
    at += length;
  }
  for (const part of [...parts, ...parser.finish()]) {
    if (part.kind === 'call') found.calls[part.call] = { name: part.name, arguments: '' };
    else if (part.kind === 'arguments') found.calls[part.call]!.arguments += part.text;
    else found[part.kind] += part.text;
  }
  return found;
}
