/** A tokenizer for tiny models of 320 or more tokens: one token per byte, byte b has id 64 + b. */
export function byteTokenizer(end: number): object {
  const printable = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let others = 256;
  const pieces = Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(printable(byte) ? byte : others++),
  );
  return {
    version: '1.0',
    added_tokens: [{ id: end, content: '</s>', special: true }],
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: false },
    normalizer: null,
    post_processor: null,
    decoder: { type: 'ByteLevel' },
    model: { type: 'BPE', vocab: Object.fromEntries(pieces.map((piece, i) => [piece, 64 + i])), merges: [] },
  };
}
