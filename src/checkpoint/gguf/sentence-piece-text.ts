/** How SentencePiece prepares a text, and how it joins tokens, in the form of tokenizer.json. */
import type { Metadata } from './metadata.js';

/** Stands for a space within tokens. */
const SPACE = '▁';
const CHARSMAP = 'tokenizer.ggml.precompiled_charsmap';

export interface TextRules {
  /** Whether a text gets a space before it. */
  addPrefix: boolean;
  /** Whether spaces at the ends vanish, and runs of spaces become one. */
  removeExtra: boolean;
}

/** `addPrefix` is for a file that does not say. */
export function readTextRules(metadata: Metadata, addPrefix: boolean): TextRules {
  return {
    addPrefix: metadata.flag('tokenizer.ggml.add_space_prefix') ?? addPrefix,
    removeExtra: metadata.flag('tokenizer.ggml.remove_extra_whitespaces') ?? false,
  };
}

export function preparation(
  { addPrefix, removeExtra }: TextRules,
  metadata: Metadata,
): { normalizer: object | null; pre_tokenizer: object | null } {
  const steps: object[] = [];
  const charsmap = readCharsmap(metadata);
  if (charsmap !== undefined) steps.push({ type: 'Precompiled', precompiled_charsmap: charsmap });
  if (removeExtra) steps.push(replaced({ Regex: ' {2,}' }, ' '), replaced({ Regex: ' \\z' }, ''));
  // With one space at most before the text, this pre-tokenizer adds what is missing. Otherwise the space is one more.
  if (removeExtra && addPrefix) return { normalizer: sequence(steps), pre_tokenizer: metaspace() };
  if (removeExtra) steps.push(replaced({ Regex: '\\A ' }, ''));
  if (addPrefix) steps.push({ type: 'Prepend', prepend: SPACE });
  return { normalizer: sequence([...steps, replaced({ String: ' ' }, SPACE)]), pre_tokenizer: null };
}

/** Turns tokens into text. Tokens of bytes become the characters that the bytes are. */
export function spaceDecoder({ addPrefix }: TextRules): object {
  const steps: object[] = [replaced({ String: SPACE }, ' '), { type: 'ByteFallback' }, { type: 'Fuse' }];
  if (addPrefix) steps.push({ type: 'Strip', content: ' ', start: 1, stop: 0 });
  return { type: 'Sequence', decoders: steps };
}

function metaspace(): object {
  return { type: 'Metaspace', replacement: SPACE, prepend_scheme: 'always', split: true };
}

function replaced(pattern: object, content: string): object {
  return { type: 'Replace', pattern, content };
}

function sequence(steps: object[]): object {
  return steps.length === 1 ? steps[0]! : { type: 'Sequence', normalizers: steps };
}

/** SentencePiece's table of normalized characters, in base64. */
function readCharsmap(metadata: Metadata): string | undefined {
  const numbers = metadata.numbers(CHARSMAP);
  if (numbers === undefined || numbers.length === 0) return undefined;
  return Buffer.from(Int8Array.from(numbers).buffer).toString('base64');
}
