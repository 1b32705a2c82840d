/** The token at the beginning of texts, where tokenizer_config.json asks for it and tokenizer.json does not. */
import { z } from 'zod';
import { MOST_SETTINGS, parseJson } from '../one-line.js';

/** Those for which transformers adds the token itself. */
const ADDS = /^(?:Code)?Llama(?:Tokenizer|TokenizerFast)$/;

const settings = z.looseObject({
  tokenizer_class: z.string().nullish(),
  add_bos_token: z.boolean().nullish(),
  bos_token: z.union([z.string(), z.looseObject({ content: z.string() })]).nullish(),
});

/** The tokenizer.json, with the token where it is missing. Other faults of the files are not looked for. */
export function withBeginToken(json: Buffer | undefined, config: Buffer | undefined): Buffer | undefined {
  if (json === undefined || config === undefined || !config.includes('"add_bos_token"')) return json;
  let own: z.infer<typeof settings>;
  let file: { added_tokens?: { id: number; content: string }[]; post_processor?: { type?: string } | null };
  try {
    own = parseJson(config, settings, MOST_SETTINGS);
    if (own.add_bos_token !== true || !ADDS.test(own.tokenizer_class ?? '')) return json;
    file = JSON.parse(json.toString());
  } catch {
    return json;
  }
  const text = typeof own.bos_token === 'string' ? own.bos_token : own.bos_token?.content;
  const token = file.added_tokens?.find(({ content }) => content === text);
  const { type } = file.post_processor ?? { type: 'ByteLevel' };
  if (token === undefined || type !== 'ByteLevel') return json;
  const begin = { SpecialToken: { id: token.content, type_id: 0 } };
  const sequences = ['A', 'B'].map((id) => ({ Sequence: { id, type_id: 0 } }));
  const post_processor = {
    type: 'TemplateProcessing',
    single: [begin, sequences[0]],
    pair: [begin, sequences[0], begin, sequences[1]],
    special_tokens: { [token.content]: { id: token.content, ids: [token.id], tokens: [token.content] } },
  };
  return Buffer.from(JSON.stringify({ ...file, post_processor }));
}
