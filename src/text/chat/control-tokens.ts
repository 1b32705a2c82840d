/** Tells which tokens steer a model. A user's text must not contain them, only text that looks like them. */
import type { TokenizerFile } from '../tokenizing/tokenizer-file.js';
import { REASONING_MARKS } from './answer-format.js';
import { CALL_FORMS, marksOf } from './call-forms.js';
import type { ChatTemplates } from './template-files.js';

export interface ControlTokens {
  special: ReadonlySet<string>;
  /** Those that are not marked as special. A template may look for them in a message, such as `</think>`. */
  others: ReadonlySet<string>;
}

/** Tokens such as `<|fim_prefix|>` steer a model, even where its tokenizer does not mark them as special. */
const SHAPE = /^<[|｜].*[|｜]>$/;
/** A model may write these though its template does not. */
const TAGS: ReadonlySet<string> = new Set([
  ...REASONING_MARKS,
  ...Object.values(CALL_FORMS).flatMap((form) => marksOf(form).map((mark) => mark.trim())),
]);
/** Without any of these it is a word, which may stand in a template for other reasons. */
const BRACKET = /[<[{|｜]/;

/**
 * The special tokens, and of the other added tokens those that a template writes, that an answer's reader knows or
 * that look like special ones. The rest is text: words and runs of spaces.
 */
export function controlTokens(
  { added_tokens }: Pick<TokenizerFile, 'added_tokens'>,
  { texts }: Pick<ChatTemplates, 'texts'>,
): ControlTokens {
  const written = (content: string) => Object.values(texts).some((text) => text.includes(content));
  const special = new Set<string>();
  const others = new Set<string>();
  for (const token of added_tokens ?? []) {
    const { content } = token;
    if (content.trim().length < 2) continue;
    if (token.special) special.add(content);
    else if (SHAPE.test(content) || TAGS.has(content) || (BRACKET.test(content) && written(content)))
      others.add(content);
  }
  return { special, others };
}
