/** Normalizes a long text piece by piece, with the result of the whole. */

/** Characters of a piece: U+FDFA, the longest, becomes eighteen of each. */
const PIECE = 2048;

/**
 * The first characters of these may join with what is before them: marks, the parts of Hangul syllables, and the
 * halfwidth voiced marks.
 */
const JOINS = /^[\p{M}\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\ud7b0-\ud7ff\uff9e-\uffdf]/u;

/** `normalize` gives one of Unicode's normal forms, of a text in which characters may first become spaces. */
export function inPieces(text: string, normalize: (piece: string) => string, pause: () => void): string {
  if (text.length <= PIECE) return normalize(text);
  let normalized = '';
  for (let begin = 0; begin < text.length; ) {
    let end = Math.min(begin + PIECE, text.length);
    while (end < text.length && !isBoundary(text, end)) end += 1;
    normalized += normalize(text.slice(begin, end));
    begin = end;
    pause();
  }
  return normalized;
}

/** Whether the texts before and after the position have normal forms of their own. */
function isBoundary(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  if (unit < 0x80) return true;
  if (isLow(unit) && isHigh(text.charCodeAt(at - 1))) return false;
  const next = String.fromCodePoint(text.codePointAt(at)!);
  if (JOINS.test(next)) return false;
  const paired = at > 1 && isLow(text.charCodeAt(at - 1)) && isHigh(text.charCodeAt(at - 2));
  const last = text.slice(paired ? at - 2 : at - 1, at);
  return (
    (last + next).normalize('NFC') === last.normalize('NFC') + next.normalize('NFC') &&
    (last + next).normalize('NFKC') === last.normalize('NFKC') + next.normalize('NFKC')
  );
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}

function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000;
}
