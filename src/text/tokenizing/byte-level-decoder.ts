/** Decodes tokens of byte-level vocabularies as the reference implementation does. */

export interface ByteLevelDecoder {
  /** Bytes by character. */
  byte_decoder?: Record<string, number>;
  text_decoder: { decode(bytes: Uint8Array): string };
  /** An id beyond the vocabulary has no token. */
  convert_tokens_to_string(tokens: (string | null | undefined)[]): string;
  /** Of a sequence. */
  decoders?: (ByteLevelDecoder | null)[];
}

const encoder = new TextEncoder();

/** A token with a character that stands for no byte is its own text. The library gives a zero for the character. */
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
  part.convert_tokens_to_string = (tokens) =>
    part.text_decoder.decode(Uint8Array.from(tokens.flatMap((token) => [...bytesOf(token ?? '')])));
}
