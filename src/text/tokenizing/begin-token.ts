/** The token at the beginning of texts, where tokenizer_config.json asks for it and tokenizer.json does not. */
import { z } from 'zod';
import { MOST_SETTINGS, parseJson } from '../one-line.js';

/** Those for which transformers adds the token itself. */
const ADDS = /^(?:Code)?Llama(?:Tokenizer|TokenizerFast)$/;

const settings = z.looseObject({
  tokenizer_class: z.string().regex(ADDS),
  add_bos_token: z.literal(true),
  bos_token: z.union([z.string(), z.looseObject({ content: z.string() })]),
});

/** The tokenizer.json, with the token where it is missing. Other faults of the files are not looked for. */
export function withBeginToken(json: Buffer | undefined, config: Buffer | undefined): Buffer | undefined {
  if (json === undefined || !config?.includes('"add_bos_token"')) return json;
  try {
    const { bos_token: text } = parseJson(config, settings, MOST_SETTINGS);
    return withBegin(json, typeof text === 'string' ? text : text.content);
  } catch {
    return json;
  }
}

function withBegin(json: Buffer, text: string): Buffer {
  const file = JSON.parse(json.toString());
  const token = file.added_tokens?.find(({ content }: { content: string }) => content === text);
  if (token === undefined || (file.post_processor?.type ?? 'ByteLevel') !== 'ByteLevel') return json;
  const begin = { SpecialToken: { id: text, type_id: 0 } };
  const [one, two] = ['A', 'B'].map((id) => ({ Sequence: { id, type_id: 0 } }));
  const special_tokens = { [text]: { id: text, ids: [token.id], tokens: [text] } };
  const whole = { single: [begin, one], pair: [begin, one, begin, two], special_tokens };
  return Buffer.from(JSON.stringify({ ...file, post_processor: { type: 'TemplateProcessing', ...whole } }));
}
