import type { AnswerFormat } from '../../src/text/chat/answer-format.js';
import { answerParser } from '../../src/text/chat/answer-parser.js';
import { type AnswerPart, type WholeAnswer, wholeAnswer } from '../../src/text/chat/answer-parts.js';

/** What a parser finds in an answer that is pushed in pieces of the given lengths. */
export function answerInPieces(
  format: AnswerFormat,
  tools: boolean,
  text: string,
  lengths: number[],
): WholeAnswer {
  const parser = answerParser(format, tools);
  const parts: AnswerPart[] = [];
  for (let at = 0, i = 0; at < text.length; i += 1) {
    const length = lengths[i % lengths.length]!;
    parts.push(...parser.push(text.slice(at, at + length)));
    at += length;
  }
  return wholeAnswer([...parts, ...parser.finish()]);
}

/** What a parser finds in an answer that comes at once. */
export function answerAtOnce(format: AnswerFormat, tools: boolean, text: string): WholeAnswer {
  return answerInPieces(format, tools, text, [text.length]);
}
