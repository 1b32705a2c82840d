/**
 * Opens @huggingface/tokenizers with the parts replaced whose time is quadratic or many times what it needs to be.
 * The ids stay the same.
 */
import { Tokenizer } from '@huggingface/tokenizers';
import type { ByteLevelDecoder } from './byte-level-decoder.js';
import { BytePair } from './byte-pair.js';
import { Charsmap } from './charsmap.js';
import { encodeSections, type MarkedText, type SectionParts } from './sections.js';
import { type SplitBehavior, splitText } from './split-text.js';
import { piecesOf, type TokenizerFile } from './tokenizer-file.js';
import { Unigram } from './unigram.js';

/** The parts of the library in use. Its own types do not resolve under `nodenext`. */
export interface TokenizerLibrary extends SectionParts {
  encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] };
  /** Not of the library: for texts with marks, and without special tokens of its own. */
  marked_encoder(controls: ReadonlySet<string>): MarkedEncoder;
  decode(ids: number[], options: { skip_special_tokens: boolean }): string;
  id_to_token(id: number): string | undefined;
  special_tokens: string[];
  normalizer: Normalizer | null;
  pre_tokenizer: PreTokenizer | null;
  decoder: ByteLevelDecoder | null;
  splitter_unnormalized: Splitter;
  splitter_normalized: Splitter;
  encode_text(text: string | null): string[] | null;
  tokenize_helper(
    text: string,
    options: { text_pair: null; add_special_tokens: boolean },
  ): { tokens: string[] };
  model: Model;
}

export interface MarkedEncoder {
  /** Throws invalid_request for a text that becomes a control token however it is cut. */
  encode(text: string, mark: string): number[];
  /** The control tokens of a text, in their order. */
  controlsIn(text: string): string[];
}

/** Finds added tokens. */
interface Splitter {
  trie: TrieNode;
  split(text: string): string[];
}

/** Its other fields are nodes, by the next character. */
interface TrieNode {
  end?: string;
  [character: string]: TrieNode | string | undefined;
}

interface Normalizer {
  normalize(text: string): string;
  /** Of a sequence. */
  normalizers?: (Normalizer | null)[];
  /** Of a precompiled normalizer, in base64. */
  charsmap?: string | null;
}

interface PreTokenizer {
  /** Of a sequence. */
  tokenizers?: (PreTokenizer | null)[];
  // Of a byte-level pre-tokenizer.
  byte_encoder?: Record<number, string>;
  add_prefix_space: boolean;
  use_regex: boolean;
  pattern: RegExp;
  /** Of pre-tokenizers that split at characters or patterns. */
  config?: { type?: string; individual_digits?: boolean; behavior?: string; invert?: boolean };
  pre_tokenize_text(text: string): string[];
}

interface Model {
  vocab: string[];
  tokens_to_ids: Map<string, number>;
  unk_token_id: number | undefined;
  fuse_unk: boolean;
  encode(tokens: string[]): string[];
  _call(tokens: string[]): string[];
  // Of a Unigram model.
  scores?: number[];
  unk_score?: number;
  trie?: unknown;
  tokenize?(text: string): string[];
  // Of a BPE model.
  merges?: string[][];
  bpe_ranks?: Map<string, number>;
  cache?: { get(word: string): string[] | undefined; put(word: string, tokens: string[]): void };
  max_length_to_cache?: number;
  end_of_word_suffix?: string | null;
  continuing_subword_suffix?: string | null;
  bpe?(word: string): string[];
}

export const Library = Tokenizer as unknown as new (file: object, config: object) => TokenizerLibrary;

/** By default, decode removes the space in " ." and " ,", unlike the reference implementation. */
export const CONFIG = { clean_up_tokenization_spaces: false };

export function openLibrary(file: TokenizerFile): TokenizerLibrary {
  const library = new Library(file, CONFIG);
  replaceNormalizer(library.normalizer);
  replacePreTokenizer(library.pre_tokenizer);
  const { model } = library;
  if (model.scores !== undefined) replaceUnigram(model, piecesOf(file));
  else if (model.bpe_ranks !== undefined)
    replaceBytePair(model, String(file.model.continuing_subword_prefix ?? ''));
  const bytes =
    model.scores && file.model.byte_fallback === true ? byteTokens(model.tokens_to_ids) : undefined;
  const longest = longestUnknown(model);
  model._call = (tokens) => {
    const found = model.encode(tokens);
    const fused = model.fuse_unk ? fuseUnknown(found, model, longest) : found;
    return bytes === undefined ? fused : inBytes(fused, bytes, model.tokens_to_ids);
  };
  library.encode_text = (text) => (text === null ? null : encodeSections(library, text));
  const idsOf = (tokens: readonly string[]) =>
    tokens.map(
      (token) =>
        library.added_tokens_map.get(token)?.id ?? model.tokens_to_ids.get(token) ?? model.unk_token_id,
    ) as number[];
  library.encode = (text, { add_special_tokens }) => {
    const { tokens } = library.tokenize_helper(text, { text_pair: null, add_special_tokens });
    return { ids: idsOf(tokens) };
  };
  library.marked_encoder = (controls) => {
    const parts = markedParts(library, controls);
    return {
      encode: (text, mark) => idsOf(encodeSections(library, text, { mark, ...parts })),
      controlsIn: (text) => parts.control.split(text).filter((section) => controls.has(section)),
    };
  };
  return library;
}

/** Length of the longest text of the unknown token, such as `<unk>`. Without such a token nothing is joined. */
function longestUnknown({ tokens_to_ids: ids, unk_token_id: unknown }: Model): number {
  if (unknown === undefined) return Number.POSITIVE_INFINITY;
  return [...ids].reduce(
    (longest, [text, id]) => (id === unknown ? Math.max(longest, text.length) : longest),
    0,
  );
}

/**
 * Joins neighbouring unknown tokens. The library looks the growing text up for each token, which takes quadratic time
 * for a text in letters that the vocabulary lacks.
 */
function fuseUnknown(
  tokens: readonly string[],
  { tokens_to_ids: ids, unk_token_id }: Model,
  longest: number,
): string[] {
  const isUnknown = (token: string) => (ids.get(token) ?? unk_token_id) === unk_token_id;
  const fused: string[] = [];
  for (let at = 0; at < tokens.length; ) {
    let text = tokens[at++]!;
    if (isUnknown(text)) {
      for (; at < tokens.length && isUnknown(tokens[at]!); at += 1)
        if (text.length > longest || ids.get(text) !== unk_token_id) text += tokens[at]!;
    }
    fused.push(text);
  }
  return fused;
}

const encoder = new TextEncoder();

/** Texts of all 256 byte tokens, or undefined where one is no token: then a text is the unknown token, as ever. */
function byteTokens(ids: ReadonlyMap<string, number>): readonly string[] | undefined {
  const tokens = Array.from({ length: 256 }, (_, byte) => byteToken(byte));
  return tokens.every((token) => ids.has(token)) ? tokens : undefined;
}

/** Gives the tokens of its bytes for a text that is no token, which the library does for BPE but not for Unigram. */
function inBytes(
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

function markedParts(library: TokenizerLibrary, controls: ReadonlySet<string>): Omit<MarkedText, 'mark'> {
  const { splitter_unnormalized, splitter_normalized, added_tokens_map: added, model } = library;
  const DictionarySplitter = splitter_normalized.constructor as new (words: Iterable<string>) => Splitter;
  const isControl = (text: string) => {
    const token = added.get(text);
    // Any text may have letters that are unknown.
    return token !== undefined && token.id !== model.unk_token_id && controls.has(token.content);
  };
  const normalized = wordsOf(splitter_normalized.trie);
  const without = (words: readonly string[]) => {
    const others = words.filter((word) => !controls.has(added.get(word)?.content ?? ''));
    // Without words the library would still look at every character.
    return others.length > 0 ? new DictionarySplitter(others) : { split: (text: string) => [text] };
  };
  return {
    isControl,
    control: new DictionarySplitter(controls),
    unnormalized: without(wordsOf(splitter_unnormalized.trie)),
    normalized: without(normalized),
    cut: new DictionarySplitter([...controls, ...normalized.filter(isControl)]),
  };
}

function wordsOf(root: TrieNode): string[] {
  const words: string[] = [];
  const nodes = [root];
  for (const { end, ...next } of nodes) {
    if (end !== undefined) words.push(end);
    for (const node of Object.values(next)) nodes.push(node as TrieNode);
  }
  return words;
}

function replaceNormalizer(normalizer: Normalizer | null): void {
  if (normalizer === null) return;
  for (const part of normalizer.normalizers ?? []) replaceNormalizer(part);
  if (!normalizer.charsmap) return;
  // The library does what the most common table would do.
  const charsmap = new Charsmap(Buffer.from(normalizer.charsmap, 'base64'));
  normalizer.normalize = (text) => charsmap.normalize(text);
}

/** GPT-2's words. The library has JavaScript's `\s` here, which lacks U+0085 and has U+FEFF. */
export const GPT2_WORDS =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

/** The library makes an array and a joined text for each word. */
function replacePreTokenizer(part: PreTokenizer | null): void {
  if (part === null) return;
  for (const each of part.tokenizers ?? []) replacePreTokenizer(each);
  const { byte_encoder: characters, config } = part;
  if (config?.type === 'Digits') {
    // The library's pattern takes only 0 to 9.
    part.pattern = config.individual_digits ? /[^\p{N}]+|\p{N}/gu : /[^\p{N}]+|\p{N}+/gu;
    return;
  }
  if (config?.type === 'Split' || config?.type === 'Punctuation') replaceSplit(part, config);
  if (characters === undefined) return;
  const shownOf = (word: string) => {
    let shown = '';
    for (const byte of encoder.encode(word)) shown += characters[byte]!;
    return shown;
  };
  part.pre_tokenize_text = (text) => {
    const whole = part.add_prefix_space && !text.startsWith(' ') ? ` ${text}` : text;
    const words = part.use_regex ? (whole.match(GPT2_WORDS) ?? []) : [whole];
    return words.map(shownOf);
  };
}

const PUNCTUATION = /[\p{P}!-/:-@[-`{-~]/gu;

/** The library follows some of the behaviors of `Split`, and none of `Punctuation`. */
function replaceSplit(part: PreTokenizer, config: NonNullable<PreTokenizer['config']>): void {
  const { type, behavior = 'Isolated', invert = false } = config;
  const kind = behavior.toLowerCase().replaceAll('_', '') as SplitBehavior;
  const pattern = type === 'Punctuation' ? PUNCTUATION : part.pattern;
  const known = kind === 'removed' || (kind === 'isolated' && !invert);
  if (pattern === null || (type === 'Split' && known)) return;
  part.pre_tokenize_text = (text) => splitText(text, pattern, { behavior: kind, invert });
}

/** `pieces` are those of the file: the library has put added tokens among its own. */
function replaceUnigram(model: Model, pieces: [string, number][]): void {
  const texts = pieces.map(([text]) => text);
  const unknownScore = model.unk_score!;
  // The library looks the score up by the id that the text has now: an added token may have changed it.
  const scores = texts.map((text) => model.scores![model.tokens_to_ids.get(text)!] ?? unknownScore);
  const unigram = new Unigram({ texts, scores: Float64Array.from(scores), unknownScore });
  model.trie = undefined;
  model.tokenize = (text) => unigram.split(text);
  model.encode = (tokens) => tokens.flatMap((token) => unigram.split(token));
}

function replaceBytePair(model: Model, prefix: string): void {
  const pairs = new BytePair(model.merges!, prefix);
  model.merges = [];
  model.bpe_ranks = new Map();
  const { cache, max_length_to_cache: longest = 0 } = model;
  const { continuing_subword_suffix: continued } = model;
  const wordEnd = model.end_of_word_suffix ?? '';
  model.bpe = (word) => {
    if (word.length === 0) return [];
    const cached = cache!.get(word);
    if (cached !== undefined) return cached;
    const tokens = pairs.merge(word, wordEnd);
    if (continued) for (let at = 0; at + 1 < tokens.length; at += 1) tokens[at] += continued;
    if (word.length < longest) cache!.put(word, tokens);
    return tokens;
  };
}
