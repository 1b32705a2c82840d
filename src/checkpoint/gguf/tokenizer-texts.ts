/**
 * Writes tokenizer.json, tokenizer_config.json and chat_template.jinja from the metadata of a GGUF file. A token keeps
 * its id, and a text gets the ids that the model's own tokenizer.json gives it.
 */
import { oneLine } from '../../text/one-line.js';
import type { TextName } from '../texts.js';
import { byteLevelParts } from './byte-level.js';
import { type ChatTemplates, readChatTemplates } from './chat-templates.js';
import type { Metadata } from './metadata.js';
import { bytePairParts, listedPairParts, unigramParts } from './sentence-piece.js';
import type { TokenizerParts } from './tokenizer-parts.js';
import { type Role, readVocabulary, TOKEN_TYPE, type Vocabulary } from './vocabulary.js';

const MODEL = 'tokenizer.ggml.model';

interface Kind {
  parts(vocabulary: Vocabulary, metadata: Metadata): TokenizerParts;
  /** Ids of roles that a file does not name, as llama.cpp has them. */
  ids: Partial<Record<Role, number>>;
}

const KINDS: Record<string, Kind> = {
  gpt2: { parts: byteLevelParts, ids: {} },
  llama: { parts: bytePairParts, ids: { unknown: 0, bos: 1, eos: 2 } },
  gemma4: { parts: listedPairParts, ids: {} },
  t5: { parts: unigramParts, ids: { padding: 0, eos: 1, unknown: 2 } },
};
/** The names of a file that has no tokenizer. Its model is served with token ids. */
const NO_TOKENIZER = ['none', 'no_vocab'];

/** No texts for a file without a tokenizer. Throws checkpoint_invalid. */
export function tokenizerTexts(metadata: Metadata): Map<TextName, Buffer> {
  const texts = new Map<TextName, Buffer>();
  const model = metadata.text(MODEL);
  if (model === undefined || NO_TOKENIZER.includes(model)) return texts;
  const kind = Object.hasOwn(KINDS, model) ? KINDS[model] : undefined;
  if (kind === undefined) {
    const known = Object.keys(KINDS).join(', ');
    throw metadata.fault(MODEL, `expected one of ${known}, found ${JSON.stringify(oneLine(model, 64))}`);
  }
  const vocabulary = readVocabulary(metadata, kind.ids);
  const { addBos, addEos, ...parts } = kind.parts(vocabulary, metadata);
  const added = {
    bos: metadata.flag('tokenizer.ggml.add_bos_token') ?? addBos,
    eos: metadata.flag('tokenizer.ggml.add_eos_token') ?? addEos,
  };
  const json = {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: addedTokens(vocabulary, parts.takesSpaces),
    normalizer: parts.normalizer,
    pre_tokenizer: parts.pre_tokenizer,
    post_processor: template(vocabulary, added, metadata),
    decoder: parts.decoder,
    model: parts.model,
  };
  const chat = readChatTemplates(metadata);
  texts.set('tokenizer.json', bytes(json));
  texts.set('tokenizer_config.json', bytes(config(vocabulary, added, chat)));
  if (chat.default !== undefined) texts.set('chat_template.jinja', Buffer.from(chat.default));
  return texts;
}

/** The tokens that are found in a text before anything else is done with it. */
function addedTokens({ texts, types }: Vocabulary, takesSpaces: RegExp | undefined): object[] {
  const added: object[] = [];
  for (const [id, content] of texts.entries()) {
    const type = types[id];
    const special = type === TOKEN_TYPE.control || type === TOKEN_TYPE.unknown;
    if (content === undefined || !(special || type === TOKEN_TYPE.userDefined)) continue;
    const strip = special && takesSpaces?.test(content) === true;
    added.push({ id, content, single_word: false, lstrip: strip, rstrip: strip, normalized: false, special });
  }
  return added;
}

/** Puts the bos and the eos token around a text. */
function template(
  { texts, ids }: Vocabulary,
  added: { bos: boolean; eos: boolean },
  metadata: Metadata,
): object | null {
  if (!added.bos && !added.eos) return null;
  const tokens: Record<string, object> = Object.create(null);
  const piece = (role: 'bos' | 'eos'): object[] => {
    if (!added[role]) return [];
    const id = ids[role];
    const text = id === undefined ? undefined : texts[id];
    if (id === undefined || text === undefined) {
      const message = `missing, though texts ${role === 'bos' ? 'begin' : 'end'} with the token`;
      throw metadata.fault(`tokenizer.ggml.${role}_token_id`, message);
    }
    tokens[text] = { id: text, ids: [id], tokens: [text] };
    return [{ SpecialToken: { id: text, type_id: 0 } }];
  };
  const [bos, eos] = [piece('bos'), piece('eos')];
  const sequence = (id: 'A' | 'B') => ({ Sequence: { id, type_id: 0 } });
  return {
    type: 'TemplateProcessing',
    single: [...bos, sequence('A'), ...eos],
    pair: [...bos, sequence('A'), ...eos, ...bos, sequence('B'), ...eos],
    special_tokens: tokens,
  };
}

function config(
  { texts, ids }: Vocabulary,
  added: { bos: boolean; eos: boolean },
  chat: ChatTemplates,
): object {
  const token = (role: Role) => texts[ids[role] ?? -1];
  const { default: own, named } = chat;
  return {
    add_bos_token: added.bos,
    add_eos_token: added.eos,
    bos_token: token('bos'),
    eos_token: token('eos'),
    unk_token: token('unknown'),
    pad_token: token('padding'),
    ...(named.length > 0 && {
      chat_template: [...(own === undefined ? [] : [{ name: 'default', template: own }]), ...named],
    }),
  };
}

function bytes(value: object): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`);
}
