/** Escapes the characters that could mislead whoever reads a text, or command the terminal that shows it. */

/**
 * Control characters, bidi and other invisible characters, lone surrogates, and combining marks after the eighth in a
 * row, which would cover the lines around them. A variation selector stays where it makes an emoji.
 */
const MISLEADING =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\u2800]|(?<!\p{Emoji})\ufe0f|(?!\ufe0f)\p{Default_Ignorable_Code_Point}|(?<=\p{M}{8})\p{M}/gu;

export function replaceMisleading(text: string, by: (character: string) => string): string {
  return text.replace(MISLEADING, by);
}

/** Escapes invisible characters, line breaks too. */
export function visible(text: string): string {
  return replaceMisleading(text, (character) => {
    const digits = character.codePointAt(0)!.toString(16).padStart(4, '0');
    return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits}`;
  });
}

/** Escapes invisible characters within the strings of a JSON text. Line breaks, which only lie between values, stay. */
export function visibleJson(json: string): string {
  return replaceMisleading(json, (character) => {
    if (character === '\n') return character;
    return [...Array(character.length).keys()]
      .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`)
      .join('');
  });
}
