/** Encodes the sections of a text between its added tokens, and keeps control tokens apart from texts of users. */
import { SidaError } from '../../errors.js';

interface Splitter {
  split(text: string): string[];
}

export interface SectionParts {
  /** Find added tokens, before and after normalization. */
  splitter_unnormalized: Splitter;
  splitter_normalized: Splitter;
  /** By their texts, before and after normalization. */
  added_tokens_map: ReadonlyMap<string, AddedToken>;
  /** They can be called. */
  normalizer: unknown;
  pre_tokenizer: unknown;
  model: unknown;
}

interface AddedToken {
  id: number;
  content: string;
  /** Whether it takes the spaces before and after it. */
  lstrip: boolean;
  rstrip: boolean;
  /** Whether it is none within a word. */
  single_word: boolean;
}

/** For a text with marks, in which only control tokens without a mark are tokens. */
export interface MarkedText {
  mark: string;
  /** Tells whether a token is one of the control tokens, however its text is normalized. */
  isControl: (token: string) => boolean;
  control: Splitter;
  /** As those of the library, but they find no control token. */
  unnormalized: Splitter;
  normalized: Splitter;
  /** Finds texts of control tokens after normalization. */
  cut: Splitter;
}

interface Section {
  text: string;
  token: AddedToken | undefined;
  /** Whether the text that follows belongs to it. */
  joins: boolean;
}

/** The tokens of the text, without those that a template adds. Of a marked text, those of the text without marks. */
export function encodeSections(library: SectionParts, text: string, marked?: MarkedText): string[] {
  const normalize = library.normalizer as ((text: string) => string) | null;
  const words = library.pre_tokenizer as ((text: string, at: { section_index: number }) => string[]) | null;
  const encode = library.model as (words: string[]) => string[];
  const { added_tokens_map: added } = library;
  const textToken = (section: string) => (marked?.isControl(section) ? undefined : added.get(section));
  // A section between control tokens may be what the normalizer makes of one.
  const controlToken = (section: string) =>
    added.get(section)?.content === section && marked!.isControl(section) ? added.get(section) : undefined;
  const inner = marked?.normalized ?? library.splitter_normalized;
  const encodePart = (part: string, index: number) =>
    encode(words === null ? [part] : words(part, { section_index: index }));
  const encodeText = (section: string, index: number): string[] => {
    const normalized = section === '' || normalize === null ? section : normalize(section);
    return sectionsOf(normalized, inner, textToken).flatMap(({ text, token }) => {
      if (token !== undefined) return text;
      if (text === '') return [];
      const tokens = encodePart(text, index);
      if (marked === undefined || !tokens.some(marked.isControl)) return tokens;
      return encodeCut(text, marked, (part) => encodePart(part, index));
    });
  };
  const sections =
    marked === undefined
      ? sectionsOf(text, library.splitter_unnormalized, textToken)
      : sectionsOf(text, marked.control, controlToken).flatMap((section) =>
          section.token !== undefined
            ? section
            : sectionsOf(section.text.replaceAll(marked.mark, ''), marked.unnormalized, textToken),
        );
  return sections.flatMap(({ text, token }, index) => (token === undefined ? encodeText(text, index) : text));
}

/** The vocabulary has a control token as a word: it is encoded as its first character and the rest. */
function encodeCut(text: string, { cut, isControl }: MarkedText, encode: (part: string) => string[]) {
  const parts = cut.split(text).flatMap((part) => {
    if (!isControl(part)) return part;
    const [first] = part;
    return [first!, part.slice(first!.length)];
  });
  const tokens = parts.flatMap(encode);
  const control = tokens.find(isControl);
  if (control === undefined) return tokens;
  throw new SidaError({
    code: 'invalid_request',
    message: `A text of the messages becomes the control token ${JSON.stringify(control)}`,
    param: 'messages',
  });
}

function sectionsOf(
  text: string,
  splitter: Splitter,
  tokenOf: (section: string) => AddedToken | undefined,
): Section[] {
  const texts = splitter.split(text);
  const sections: Section[] = [];
  for (const [at, own] of texts.entries()) {
    const found = tokenOf(own);
    const joins = found?.single_word === true && isWithinWord(texts[at - 1], texts[at + 1]);
    const before = sections.at(-1);
    const isText = found === undefined ? before?.joins : joins && before?.token === undefined;
    if (before !== undefined && isText) Object.assign(before, { text: before.text + own, joins: true });
    else sections.push({ text: own, token: joins ? undefined : found, joins });
  }
  for (const [at, { token }] of sections.entries()) {
    const before = sections[at - 1];
    const after = sections[at + 1];
    if (token?.lstrip && before !== undefined) before.text = before.text.trimEnd();
    if (token?.rstrip && after !== undefined) after.text = after.text.trimStart();
  }
  return sections;
}

const LETTER = '[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]';
const [ENDS_IN_WORD, BEGINS_IN_WORD] = [new RegExp(`${LETTER}$`, 'u'), new RegExp(`^${LETTER}`, 'u')];

function isWithinWord(before = '', after = ''): boolean {
  return ENDS_IN_WORD.test(before.slice(-2)) || BEGINS_IN_WORD.test(after);
}
