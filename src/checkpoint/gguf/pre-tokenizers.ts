/** What `tokenizer.ggml.pre` stands for: how the tokenizer.json files of those models cut a text into words. */

export interface BytePairStyle {
  normalizer: object | null;
  /** Before the bytes become characters. */
  splits: readonly object[];
  /** Whether GPT-2's own pattern splits too. */
  gpt2Pattern: boolean;
  /** Whether a word that is a token stays whole, whatever the merges make of it. */
  ignoreMerges: boolean;
  /** Whether texts begin with the bos token in a file that does not say. */
  addBos: boolean;
}

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const REST = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const LLAMA3 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|${REST}`;
const QWEN2 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|${REST}`;
const QWEN35 =
  `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}` +
  '| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';

const UPPER = '\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}';
const LOWER = '\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}';

/** Words that change at capital letters, with what may follow a word. */
function casedWords(end: string, except = ''): string {
  const before = '[^\\r\\n\\p{L}\\p{N}]?';
  const [upper, lower] = [`[${UPPER}${except}]`, `[${LOWER}${except}]`];
  return `${before}${upper}*${lower}+${end}|${before}${upper}+${lower}*${end}`;
}

const REST_WITH_SLASH = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const GPT4O = `${casedWords(`${CONTRACTIONS}?`)}|\\p{N}{1,3}|${REST_WITH_SLASH}`;
const TEKKEN = `${casedWords('')}|\\p{N}|${REST_WITH_SLASH}`;
const KIMI = `[\\p{Han}]+|${casedWords(`${CONTRACTIONS}?`, '&&[^\\p{Han}]')}|\\p{N}{1,3}|${REST}`;

/** Chinese, Japanese and Korean characters, as DeepSeek's earlier tokenizers have them. */
const EAST_ASIAN = '[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+';
/** As escapes: several of these characters look like others. */
const DEEPSEEK_LETTERS =
  'A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF' +
  '\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5' +
  '\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA' +
  '\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45' +
  '\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE' +
  '\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102' +
  '\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139' +
  '\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3' +
  '\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06' +
  '\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\u{10400}-\u{1044F}\u{104B0}-\u{104D3}\u{104D8}-\u{104FB}' +
  '\u{10C80}-\u{10CB2}\u{10CC0}-\u{10CF2}\u{118A0}-\u{118DF}\u{1E900}-\u{1E943}';
const DEEPSEEK_V3 =
  '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+' +
  '| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+';
/** What llama.cpp does for files whose converter did not know the model. */
const GPT2_PATTERN = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)";

const NFC = { type: 'NFC' };
const DIGIT = { type: 'Digits', individual_digits: true };

const NONE: Omit<BytePairStyle, 'splits'> = {
  normalizer: null,
  gpt2Pattern: false,
  ignoreMerges: false,
  addBos: false,
};

/** Splits by each of the patterns, one after the other. */
function patterns(...texts: string[]): object[] {
  return texts.map((text) => ({
    type: 'Split',
    pattern: { Regex: text },
    behavior: 'Isolated',
    invert: false,
  }));
}

const gpt2: BytePairStyle = { ...NONE, splits: [], gpt2Pattern: true };
const digits: BytePairStyle = { ...gpt2, splits: [DIGIT] };
const llama3: BytePairStyle = { ...NONE, splits: patterns(LLAMA3) };
const llama3Whole: BytePairStyle = { ...llama3, ignoreMerges: true, addBos: true };
const glm4: BytePairStyle = { ...llama3, ignoreMerges: true };
const qwen2: BytePairStyle = { ...NONE, normalizer: NFC, splits: patterns(QWEN2) };
const gpt4o: BytePairStyle = { ...NONE, ignoreMerges: true, splits: patterns(GPT4O) };
const deepseekV3: BytePairStyle = {
  ...NONE,
  splits: patterns('\\p{N}{1,3}', '[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+', DEEPSEEK_V3),
};

const STYLES = {
  default: {
    ...NONE,
    splits: patterns('[\\p{P}\\$\\+<=>\\^~\\|]+', GPT2_PATTERN, '\\p{N}+', '[0-9][0-9][0-9]'),
  },
  'gpt-2': gpt2,
  'phi-2': gpt2,
  olmo: { ...gpt2, normalizer: NFC },
  mpt: { ...gpt2, normalizer: NFC },
  starcoder: digits,
  refact: digits,
  smollm: digits,
  exaone: digits,
  'command-r': { ...digits, normalizer: NFC },
  'llama-bpe': llama3Whole,
  llama3: llama3Whole,
  'llama-v3': llama3Whole,
  'smaug-bpe': llama3,
  dbrx: llama3,
  'chatglm-bpe': glm4,
  glm4,
  qwen2,
  'deepseek-r1-qwen': qwen2,
  megrez: qwen2,
  qwen35: { ...NONE, normalizer: NFC, splits: patterns(QWEN35) },
  'deepseek-llm': {
    ...NONE,
    splits: [
      ...patterns(
        '[\r\n]',
        `\\s?[${DEEPSEEK_LETTERS}]+`,
        '\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+',
        '\\s+$',
        EAST_ASIAN,
      ),
      DIGIT,
    ],
  },
  'deepseek-coder': {
    ...NONE,
    splits: [...patterns('[\r\n]', '\\s?\\p{L}+', '\\s?\\p{P}+', EAST_ASIAN), DIGIT],
  },
  'deepseek-v3': deepseekV3,
  'joyai-llm': deepseekV3,
  'hunyuan-dense': deepseekV3,
  'gpt-4o': gpt4o,
  llama4: gpt4o,
  'minimax-m2': { ...gpt4o, ignoreMerges: false },
  tekken: { ...NONE, ignoreMerges: true, addBos: true, splits: patterns(TEKKEN) },
  'kimi-k2': { ...NONE, ignoreMerges: true, splits: patterns(KIMI) },
  bloom: { ...NONE, splits: patterns(' ?[^(\\s|[.,!?…。，、।۔،])]+') },
} satisfies Record<string, BytePairStyle>;

export const PRE_TOKENIZERS = Object.keys(STYLES);

/** Undefined for a name that is not known. */
export function bytePairStyle(name: string): BytePairStyle | undefined {
  return Object.hasOwn(STYLES, name) ? STYLES[name as keyof typeof STYLES] : undefined;
}
