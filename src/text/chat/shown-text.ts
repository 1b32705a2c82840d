import type { TokenTexts } from '../detokenizer.js';

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
