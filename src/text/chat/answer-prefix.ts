/** Finds what a template has written of the answer already, such as `<think>` or the beginning of a header. */
import { type AnswerFormat, CHANNEL_TOKENS, CONTROL, REASONING_TAGS } from './answer-format.js';

/** Tokens at the end of a prompt that may belong to the answer. */
const TAIL = 24;

const OPEN_REASONING = new RegExp(`${REASONING_TAGS[0]}\\s*$`);
const { start, end, call, return: returned } = CHANNEL_TOKENS;

/** `prompt` holds token ids, and `decode` shows the tokens that an answer shows. */
export function answerPrefix(
  format: AnswerFormat,
  prompt: readonly number[],
  decode: (ids: readonly number[]) => string,
): string {
  const tail = decode(prompt.slice(-TAIL));
  if (format.kind === 'tags') return format.reasoning && OPEN_REASONING.test(tail) ? REASONING_TAGS[0] : '';
  const begin = tail.lastIndexOf(CONTROL + start);
  const message = begin < 0 ? '' : tail.slice(begin);
  return [end, call, returned].some((token) => message.includes(CONTROL + token)) ? '' : message;
}
