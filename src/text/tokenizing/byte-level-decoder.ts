/** Decodes tokens of byte-level vocabularies as the reference implementation does. */

type Token = string | null | undefined;

export interface ByteLevelDecoder {
  /** Bytes by character. */
  byte_decoder?: Record<string, number>;
  text_decoder: { decode(bytes: Uint8Array): string };
  /** Tokens that are their own text. */
  added_tokens?: { content: string }[];
  /** An id beyond the vocabulary has no token. */
  convert_tokens_to_string(tokens: Token[]): string;
  /** The texts of the tokens. */
  decode_chain(tokens: Token[]): string[];
  /** Of the file. */
  config?: { type?: string; prepend_scheme?: string; replacement?: string };
  /** Of a sequence. */
  decoders?: (ByteLevelDecoder | null)[];
}

const encoder = new TextEncoder();

/**
 * A token with a character that stands for no byte is its own text. The library gives a zero for the character, and
 * searches all added tokens for each token.
 */
export function replaceByteLevelDecoder(part: ByteLevelDecoder | null): void {
  if (part === null) return;
  for (const each of part.decoders ?? []) replaceByteLevelDecoder(each);
  const { byte_decoder: bytes } = part;
  if (bytes === undefined) return;
  const bytesOf = (token: string): Iterable<number> => {
    const own: number[] = [];
    for (const character of token) {
      const byte = bytes[character];
      if (byte === undefined) return encoder.encode(token);
      own.push(Number(byte));
    }
    return own;
  };
  const textOf = (tokens: readonly Token[]) => {
    const all: number[] = [];
    for (const token of tokens) for (const byte of bytesOf(token ?? '')) all.push(byte);
    return part.text_decoder.decode(Uint8Array.from(all));
  };
  const added = new Set<Token>((part.added_tokens ?? []).map(({ content }) => content));
  part.convert_tokens_to_string = textOf;
  part.decode_chain = (tokens) => {
    const texts: string[] = [];
    let others: Token[] = [];
    const close = () => {
      if (others.length > 0) texts.push(textOf(others));
      others = [];
    };
    for (const token of tokens) {
      if (!added.has(token)) {
        others.push(token);
        continue;
      }
      close();
      texts.push(token!);
    }
    close();
    return texts;
  };
}
