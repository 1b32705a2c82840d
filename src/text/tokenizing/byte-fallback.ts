/** Gives the tokens of its bytes for a text that is no token, which the library does for BPE but not for Unigram. */

const encoder = new TextEncoder();

/** Texts of all 256 byte tokens, or undefined where one is no token: then a text is the unknown token, as ever. */
export function byteTokens(ids: ReadonlyMap<string, number>): readonly string[] | undefined {
  const tokens = Array.from({ length: 256 }, (_, byte) => byteToken(byte));
  return tokens.every((token) => ids.has(token)) ? tokens : undefined;
}

export function inBytes(
  tokens: readonly string[],
  bytes: readonly string[],
  ids: ReadonlyMap<string, number>,
): string[] {
  return tokens.flatMap((token) =>
    ids.has(token) ? [token] : Array.from(encoder.encode(token), (byte) => bytes[byte]!),
  );
}

function byteToken(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
}
