/** SentencePiece's two kinds of vocabularies in the form of tokenizer.json. */
import { readMerges, vocabularyObject } from './byte-level.js';
import type { Metadata } from './metadata.js';
import { mergesByScore } from './score-merges.js';
import { preparation, readTextRules, spaceDecoder } from './sentence-piece-text.js';
import type { TokenizerParts } from './tokenizer-parts.js';
import { named, TOKEN_TYPE, type Vocabulary } from './vocabulary.js';

/** BPE with merges by score (`tokenizer.ggml.model` = llama). Throws checkpoint_invalid. */
export function bytePairParts(vocabulary: Vocabulary, metadata: Metadata): TokenizerParts {
  requireScores(vocabulary, metadata);
  return bytePairs(vocabulary, metadata, true, () => mergesByScore(vocabulary, metadata));
}

/** BPE with a list of merges (`tokenizer.ggml.model` = gemma4). Throws checkpoint_invalid. */
export function listedPairParts(vocabulary: Vocabulary, metadata: Metadata): TokenizerParts {
  return bytePairs(vocabulary, metadata, false, (vocab) => readMerges(vocab, metadata));
}

function bytePairs(
  vocabulary: Vocabulary,
  metadata: Metadata,
  addPrefix: boolean,
  merges: (vocab: Record<string, number>) => [left: string, right: string][],
): TokenizerParts {
  const rules = readTextRules(metadata, addPrefix);
  const vocab = vocabularyObject(vocabulary.texts);
  return {
    ...preparation(rules, metadata),
    decoder: spaceDecoder(rules),
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: vocabulary.texts[vocabulary.ids.unknown ?? -1] ?? null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: true,
      byte_fallback: hasBytes(vocabulary, metadata),
      ignore_merges: false,
      vocab,
      merges: merges(vocab),
    },
    addBos: true,
    addEos: false,
  };
}

/** Unigram (`tokenizer.ggml.model` = t5). Throws checkpoint_invalid. */
export function unigramParts(vocabulary: Vocabulary, metadata: Metadata): TokenizerParts {
  const rules = readTextRules(metadata, false);
  requireScores(vocabulary, metadata);
  const { unknown } = vocabulary.ids;
  if (unknown === undefined) throw metadata.fault('tokenizer.ggml.unknown_token_id', 'missing');
  return {
    ...preparation(rules, metadata),
    decoder: spaceDecoder(rules),
    model: {
      type: 'Unigram',
      unk_id: unknown,
      vocab: scoredPieces(vocabulary),
      byte_fallback: hasBytes(vocabulary, metadata),
    },
    takesSpaces: /^<extra_id_\d+>$/,
    addBos: false,
    addEos: true,
  };
}

/**
 * Each token with its score. A character without a token costs more than the lowest score, so the scores of tokens
 * that no text becomes must not be lower.
 */
function scoredPieces({ texts, types, scores }: Vocabulary): [string, number][] {
  let lowest = Number.POSITIVE_INFINITY;
  for (let id = 0; id < texts.length; id += 1) {
    if (texts[id] !== undefined && types[id] === TOKEN_TYPE.normal) lowest = Math.min(lowest, scores![id]!);
  }
  const least = Number.isFinite(lowest) ? lowest : 0;
  const end = texts.findLastIndex((text) => text !== undefined) + 1;
  // An id without a token keeps its place. Nothing in a text is called so.
  return texts.slice(0, end).map((text, id) => [text ?? `[PAD${id}]`, Math.max(scores![id]!, least)]);
}

function requireScores({ scores }: Vocabulary, metadata: Metadata): void {
  if (scores === undefined) throw metadata.fault('tokenizer.ggml.scores', 'missing');
}

/** Whether a character without a token becomes the tokens of its bytes. */
function hasBytes({ texts, types }: Vocabulary, metadata: Metadata): boolean {
  let found = false;
  for (const [id, text] of texts.entries()) {
    if (types[id] !== TOKEN_TYPE.byte || text === undefined) continue;
    if (!/^<0x[0-9A-F]{2}>$/.test(text)) {
      throw metadata.fault(
        'tokenizer.ggml.tokens',
        `expected <0x00> to <0xFF> of type byte, found token ${named(id, text)}`,
      );
    }
    found = true;
  }
  return found;
}
