/** Texts of tokens, as answers show them. */
import type { TokenTexts } from '../detokenizer.js';
import { type AnswerFormat, CHANNEL_TOKENS, CONTROL, reasoningTags } from './answer-format.js';

/** Decodes ids without special tokens, except those of `shown`, which gives their texts by id. */
export function shownText(
  texts: Pick<TokenTexts, 'decode'>,
  shown: ReadonlyMap<number, string>,
): (ids: readonly number[]) => string {
  return (ids) => {
    let text = '';
    let begin = 0;
    for (let at = 0; at <= ids.length; at += 1) {
      const own = at < ids.length ? shown.get(ids[at]!) : '';
      if (own === undefined) continue;
      text += texts.decode(ids.slice(begin, at), true) + own;
      begin = at + 1;
    }
    return text;
  };
}

/** The text that a token adds to an answer, with the space before a word. */
export function tokenText(texts: Pick<TokenTexts, 'decode'>): (id: number) => string {
  return (id) => {
    const alone = texts.decode([id], false);
    // Some tokenizers leave out the space before the first word of a text.
    const twice = texts.decode([id, id], false);
    return twice.endsWith(alone) && twice.length > 2 * alone.length ? twice.slice(alone.length) : alone;
  };
}

/** Tokens at the end of a prompt that may belong to the answer. */
const TAIL = 24;
/** The same where the request has the beginning of the answer, which is behind the header. */
const BEGUN_TAIL = 8192;

const { start, message, end, call, return: returned } = CHANNEL_TOKENS;

/**
 * What a template has written of the answer already, such as `<think>` or the beginning of a header. `prompt` holds
 * token ids, and `decode` shows the tokens that an answer shows.
 */
export function answerPrefix(
  format: AnswerFormat,
  prompt: ArrayLike<number>,
  decode: (ids: readonly number[]) => string,
): string {
  const last = (count: number): number[] => Array.prototype.slice.call(prompt, -count);
  let tail = decode(last(TAIL));
  if (format.kind === 'tags') {
    const [begin] = reasoningTags(format.reasoningForm);
    return format.reasoning && tail.trimEnd().endsWith(begin) ? begin : '';
  }
  if (!tail.includes(CONTROL + start)) tail = decode(last(BEGUN_TAIL));
  const begin = tail.lastIndexOf(CONTROL + start);
  const header = begin < 0 ? '' : tail.slice(begin);
  if ([end, call, returned].some((token) => header.includes(CONTROL + token))) return '';
  // What follows is the beginning of an answer that the request has, and no part of what the model writes.
  const text = header.indexOf(CONTROL + message);
  return text < 0 ? header : header.slice(0, text + CONTROL.length + message.length);
}
