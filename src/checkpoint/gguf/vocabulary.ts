/** The tokens of a GGUF file: texts, types, scores, and the ids that have a role. */
import { oneLine } from '../../text/one-line.js';
import type { Metadata } from './metadata.js';

/** The numbers of `tokenizer.ggml.token_type`. */
export const TOKEN_TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;
const HIGHEST_TYPE = TOKEN_TYPE.byte;

const KEY = {
  tokens: 'tokenizer.ggml.tokens',
  types: 'tokenizer.ggml.token_type',
  scores: 'tokenizer.ggml.scores',
} as const;

/** Roles of tokens, each the part of its key before `_token_id`. */
const ROLES = ['bos', 'eos', 'unknown', 'padding'] as const;
export type Role = (typeof ROLES)[number];

export interface Vocabulary {
  /**
   * By id, each a text of its own. Undefined for an id without a token, as of a padded embedding row, and for a token
   * that is no UTF-8, which no text becomes.
   */
  texts: readonly (string | undefined)[];
  types: ArrayLike<number>;
  /** Absent in byte-level vocabularies. */
  scores: ArrayLike<number> | undefined;
  ids: Partial<Record<Role, number>>;
}

/** `defaults` are the ids of roles that the file does not name. Throws checkpoint_invalid. */
export function readVocabulary(metadata: Metadata, defaults: Partial<Record<Role, number>>): Vocabulary {
  const tokens = metadata.texts(KEY.tokens);
  if (tokens === undefined || tokens.length === 0)
    throw metadata.fault(KEY.tokens, 'expected tokens, found none');
  const given = readTypes(tokens.length, metadata);
  const unknown = Array.prototype.indexOf.call(given ?? [], TOKEN_TYPE.unknown);
  const usual = unknown < 0 ? defaults : { ...defaults, unknown };
  const ids: Partial<Record<Role, number>> = {};
  for (const role of ROLES) {
    const id = roleId(role, tokens.length, metadata) ?? usual[role];
    if (id !== undefined && id < tokens.length) ids[role] = id;
  }
  const types = given ?? guessedTypes(tokens.length, ids);
  const texts = tokens.map((text, id) =>
    text === undefined || isFiller(text, types[id]!) ? undefined : text,
  );
  checkTexts(texts, metadata);
  return { texts, types, scores: readScores(tokens.length, metadata), ids };
}

/** Public converters fill ids that have no token with unused tokens of such names. */
function isFiller(text: string, type: number): boolean {
  return text === '' || (type === TOKEN_TYPE.unused && /^\[PAD\d+\]$/.test(text));
}

/** A token for messages, such as `5 ("▁the")`. */
export function named(id: number, text: string): string {
  return `${id} (${JSON.stringify(oneLine(text, 64))})`;
}

function checkTexts(texts: Vocabulary['texts'], metadata: Metadata): void {
  const owners = new Map<string, number>();
  for (const [id, text] of texts.entries()) {
    if (text === undefined) continue;
    const owner = owners.get(text);
    if (owner !== undefined) {
      throw metadata.fault(KEY.tokens, `tokens ${owner} and ${named(id, text)} have the same text`);
    }
    owners.set(text, id);
  }
}

function roleId(role: Role, tokens: number, metadata: Metadata): number | undefined {
  const key = `tokenizer.ggml.${role}_token_id`;
  if (metadata.isUnset(key)) return undefined;
  const id = metadata.whole(key);
  if (id !== undefined && id >= tokens)
    throw metadata.fault(key, `expected an id below ${tokens}, found ${id}`);
  return id;
}

function readTypes(tokens: number, metadata: Metadata): ArrayLike<number> | undefined {
  const types = metadata.numbers(KEY.types);
  if (types === undefined) return undefined;
  requireOneEach(types, tokens, KEY.types, metadata);
  for (let id = 0; id < tokens; id += 1) {
    const type = types[id]!;
    if (!Number.isInteger(type) || type < 0 || type > HIGHEST_TYPE) {
      throw metadata.fault(KEY.types, `token ${id} has type ${type}, expected 0 to ${HIGHEST_TYPE}`);
    }
  }
  return types;
}

/** A file without types still says which tokens have a role. */
function guessedTypes(tokens: number, ids: Vocabulary['ids']): Uint8Array {
  const types = new Uint8Array(tokens).fill(TOKEN_TYPE.normal);
  for (const id of Object.values(ids)) types[id] = TOKEN_TYPE.control;
  if (ids.unknown !== undefined) types[ids.unknown] = TOKEN_TYPE.unknown;
  return types;
}

function readScores(tokens: number, metadata: Metadata): ArrayLike<number> | undefined {
  const scores = metadata.numbers(KEY.scores);
  if (scores === undefined) return undefined;
  requireOneEach(scores, tokens, KEY.scores, metadata);
  for (let id = 0; id < tokens; id += 1) {
    if (!Number.isFinite(scores[id]!)) {
      throw metadata.fault(KEY.scores, `token ${id} has the score ${scores[id]}, expected a finite number`);
    }
  }
  return scores;
}

function requireOneEach(values: ArrayLike<number>, tokens: number, key: string, metadata: Metadata): void {
  if (values.length === tokens) return;
  throw metadata.fault(key, `expected ${tokens} values, one for each token, found ${values.length}`);
}
