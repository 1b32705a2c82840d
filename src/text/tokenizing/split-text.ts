/** Splits a text at the matches of a pattern, as the reference implementation does. */

export type SplitBehavior = 'removed' | 'isolated' | 'mergedwithprevious' | 'mergedwithnext' | 'contiguous';

interface Piece {
  text: string;
  matches: boolean;
}

/** With `invert`, what stands between the matches counts as match. `pattern` has the flag `g`. */
export function splitText(
  text: string,
  pattern: RegExp,
  { behavior, invert }: { behavior: SplitBehavior; invert: boolean },
): string[] {
  const pieces: Piece[] = [];
  let from = 0;
  const add = (end: number, matches: boolean) => {
    if (end > from) pieces.push({ text: text.slice(from, end), matches: matches !== invert });
    from = end;
  };
  for (const match of text.matchAll(pattern)) {
    add(match.index, false);
    add(match.index + match[0].length, true);
  }
  add(text.length, false);
  if (behavior === 'removed') return pieces.filter(({ matches }) => !matches).map((piece) => piece.text);
  if (behavior === 'isolated') return pieces.map((piece) => piece.text);
  const backwards = behavior === 'mergedwithnext';
  const found: string[] = [];
  let last = false;
  for (const { text: own, matches } of backwards ? pieces.reverse() : pieces) {
    const joins = behavior === 'contiguous' ? matches === last : matches && !last;
    last = matches;
    const beside = joins ? found.pop() : undefined;
    found.push(backwards ? own + (beside ?? '') : (beside ?? '') + own);
  }
  return backwards ? found.reverse() : found;
}
