/** Joins texts as a sentence lists them: `a`, `a or b`, `a, b or c`. */
export function listed(texts: readonly (string | undefined)[], word: 'and' | 'or'): string {
  return texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} ${word} ${texts.at(-1)}`;
}
