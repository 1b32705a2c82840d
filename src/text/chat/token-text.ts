import type { TokenTexts } from '../detokenizer.js';

/** The text that a token adds to an answer, with the space before a word. */
export function tokenText(texts: Pick<TokenTexts, 'decode'>): (id: number) => string {
  return (id) => {
    const alone = texts.decode([id], false);
    // Some tokenizers leave out the space before the first word of a text.
    const twice = texts.decode([id, id], false);
    return twice.endsWith(alone) && twice.length > 2 * alone.length ? twice.slice(alone.length) : alone;
  };
}
