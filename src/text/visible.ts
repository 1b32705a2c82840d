/** Escapes the characters that could mislead whoever reads a text, or command the terminal that shows it. */

/** Control characters, bidi and other invisible characters, and lone surrogates. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Escapes invisible characters, line breaks too. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (character) => {
    return `\\u${character.codePointAt(0)!.toString(16).padStart(4, '0')}`;
  });
}

/** Escapes invisible characters within the strings of a JSON text. Line breaks, which only lie between values, stay. */
export function visibleJson(json: string): string {
  return json.replace(INVISIBLE, (character) => {
    if (character === '\n') return character;
    return [...Array(character.length).keys()]
      .map((i) => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`)
      .join('');
  });
}
