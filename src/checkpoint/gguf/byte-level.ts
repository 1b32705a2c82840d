/** A byte-level BPE tokenizer (`tokenizer.ggml.model` = gpt2) in the form of tokenizer.json. */
import { oneLine } from '../../text/one-line.js';
import type { Metadata } from './metadata.js';
import { bytePairStyle, PRE_TOKENIZERS } from './pre-tokenizers.js';
import type { TokenizerParts } from './tokenizer-parts.js';
import type { Vocabulary } from './vocabulary.js';

const PRE = 'tokenizer.ggml.pre';
const TOKENS = 'tokenizer.ggml.tokens';
const MERGES = 'tokenizer.ggml.merges';

/** Throws checkpoint_invalid. */
export function byteLevelParts(vocabulary: Vocabulary, metadata: Metadata): TokenizerParts {
  const name = metadata.text(PRE) ?? 'default';
  const style = bytePairStyle(name);
  if (style === undefined) {
    const known = PRE_TOKENIZERS.join(', ');
    throw metadata.fault(PRE, `expected one of ${known}, found ${JSON.stringify(oneLine(name, 64))}`);
  }
  const { normalizer, splits, gpt2Pattern, ignoreMerges, addBos } = style;
  const byteLevel = {
    type: 'ByteLevel',
    add_prefix_space: metadata.flag('tokenizer.ggml.add_space_prefix') ?? false,
    trim_offsets: false,
    use_regex: gpt2Pattern,
  };
  requireUtf8(metadata);
  const vocab = vocabularyObject(vocabulary.texts);
  return {
    normalizer,
    pre_tokenizer:
      splits.length === 0 ? byteLevel : { type: 'Sequence', pretokenizers: [...splits, byteLevel] },
    decoder: { ...byteLevel, add_prefix_space: false },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: ignoreMerges,
      vocab,
      merges: readMerges(vocab, metadata),
    },
    addBos,
    addEos: false,
  };
}

/** Each character of a token stands for a byte. */
function requireUtf8(metadata: Metadata): void {
  const id = metadata.texts(TOKENS)!.indexOf(undefined);
  if (id >= 0)
    throw metadata.fault(TOKENS, `token ${id} is no UTF-8, expected characters that stand for bytes`);
}

/** Texts with their ids. It has no prototype, since a token may be called `__proto__`. */
export function vocabularyObject(texts: Vocabulary['texts']): Record<string, number> {
  const vocab: Record<string, number> = Object.create(null);
  for (const [id, text] of texts.entries()) {
    if (text !== undefined) vocab[text] = id;
  }
  return vocab;
}

/** Throws checkpoint_invalid. */
export function readMerges(
  vocab: Record<string, number>,
  metadata: Metadata,
): [left: string, right: string][] {
  const merges = metadata.texts(MERGES);
  if (merges === undefined) throw metadata.fault(MERGES, 'missing');
  return merges.map((merge, at) => {
    if (merge === undefined) throw metadata.fault(MERGES, `merge ${at} is no UTF-8`);
    // The first of the two may begin with a space, but not be empty.
    const space = merge.indexOf(' ', 1);
    const [left, right] = [merge.slice(0, space), merge.slice(space + 1)];
    if (space > 0 && vocab[left + right] !== undefined) return [left, right];
    const fault =
      space > 0 ? `${JSON.stringify(oneLine(left + right, 64))} is no token` : 'expected two texts';
    throw metadata.fault(MERGES, `merge ${at} (${JSON.stringify(oneLine(merge, 64))}): ${fault}`);
  });
}
