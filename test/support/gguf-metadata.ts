/** Writes a tokenizer.json as the metadata of a GGUF file, as the public converter does. */

import { TOKEN_TYPE } from '../../src/checkpoint/gguf/vocabulary.js';
import type { GgufValue } from '../../src/native/addon-types.js';

interface TokenizerJson {
  added_tokens: { id: number; content: string; special: boolean }[];
  normalizer: { normalizers?: { type: string; precompiled_charsmap?: string }[] } | null;
  model: {
    type: string;
    vocab: Record<string, number> | [string, number][];
    merges?: (string | [string, string])[];
    unk_id?: number;
  };
}

/** `rows` are those of the embedding, `more` what the converter takes from other files. */
export function metadataOf(
  { added_tokens, normalizer, model }: TokenizerJson,
  rows: number,
  more: Record<string, GgufValue>,
): Record<string, GgufValue> {
  const tokens = Array.from({ length: rows }, (_, id) => `[PAD${id}]`);
  const types = new Int32Array(rows).fill(TOKEN_TYPE.unused);
  const scores = new Float32Array(rows).fill(-1000);
  const put = (id: number, text: string, type: number, score = 0) => {
    tokens[id] = text;
    types[id] = type;
    scores[id] = score;
  };
  if (Array.isArray(model.vocab)) {
    for (const [id, [text, score]] of model.vocab.entries()) put(id, text, TOKEN_TYPE.normal, score);
  } else {
    for (const [text, id] of Object.entries(model.vocab)) put(id, text, TOKEN_TYPE.normal);
  }
  for (const { id, content, special } of added_tokens) {
    put(id, content, special ? TOKEN_TYPE.control : TOKEN_TYPE.userDefined);
  }
  const ofUnigram: Record<string, GgufValue> = {};
  if (model.type === 'Unigram') {
    types[model.unk_id!] = TOKEN_TYPE.unknown;
    const charsmap = normalizer?.normalizers?.find(
      ({ type }) => type === 'Precompiled',
    )?.precompiled_charsmap;
    Object.assign(ofUnigram, {
      'tokenizer.ggml.scores': scores,
      'tokenizer.ggml.unknown_token_id': model.unk_id,
      ...(charsmap && {
        'tokenizer.ggml.precompiled_charsmap': Uint8Array.from(Buffer.from(charsmap, 'base64')),
      }),
    });
  }
  return {
    'tokenizer.ggml.model': model.type === 'Unigram' ? 't5' : 'gpt2',
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.token_type': types,
    ...(model.merges && {
      'tokenizer.ggml.merges': model.merges.map((merge) =>
        typeof merge === 'string' ? merge : merge.join(' '),
      ),
    }),
    ...ofUnigram,
    ...more,
  };
}
