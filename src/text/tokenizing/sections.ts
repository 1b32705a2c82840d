/** Encodes the sections of a text between its added tokens, and keeps control tokens apart from texts of users. */
export interface SectionParts {
  /** Find added tokens, before and after normalization. */
  splitter_unnormalized: { split(text: string): string[] };
  splitter_normalized: { split(text: string): string[] };
  added_tokens_map: ReadonlyMap<string, AddedToken>;
  /** They can be called. */
  normalizer: unknown;
  pre_tokenizer: unknown;
  model: unknown;
}

interface AddedToken {
  id: number;
  /** Whether it takes the spaces before and after it. */
  lstrip: boolean;
  rstrip: boolean;
}

/** For a text with marks, which keep what looks like a control token from being one. */
export interface MarkedText {
  mark: string;
  controls: ReadonlySet<string>;
  /** As those of the library, but the first one finds every control token, and the second none. */
  unnormalized: SectionParts['splitter_unnormalized'];
  normalized: SectionParts['splitter_normalized'];
}

/** The tokens of the text, without those that a template adds. Of a marked text, those of the text without marks. */
export function encodeSections(library: SectionParts, text: string, marked?: MarkedText): string[] {
  const normalize = library.normalizer as ((text: string) => string) | null;
  const words = library.pre_tokenizer as ((text: string, at: { section_index: number }) => string[]) | null;
  const encode = library.model as (words: string[]) => string[];
  const { added_tokens_map: added } = library;
  const splitter = marked?.unnormalized ?? library.splitter_unnormalized;
  const inner = marked?.normalized ?? library.splitter_normalized;
  const encodeText = (section: string, index: number): string[] => {
    const normalized = section === '' || normalize === null ? section : normalize(section);
    if (normalized === '') return [];
    return sectionsOf(normalized, inner, added).flatMap((part) => {
      if (part === '') return [];
      if (added.has(part) && !marked?.controls.has(part)) return part;
      return encode(words === null ? [part] : words(part, { section_index: index }));
    });
  };
  return sectionsOf(text, splitter, added).flatMap((section, index) => {
    if (added.has(section)) return section;
    if (marked === undefined) return encodeText(section, index);
    return encodeMarked(section, marked, (piece) => encodeText(piece, index));
  });
}

function encodeMarked(
  section: string,
  { mark, controls }: MarkedText,
  encodeText: (text: string) => string[],
): string[] {
  const tokens = encodeText(section.replaceAll(mark, ''));
  if (!tokens.some((token) => controls.has(token))) return tokens;
  // The vocabulary itself holds a control token as a word, so nothing less than the mark keeps it away.
  return section.split(mark).flatMap(encodeText);
}

function sectionsOf(
  text: string,
  splitter: SectionParts['splitter_normalized'],
  added: SectionParts['added_tokens_map'],
): string[] {
  const sections = splitter.split(text);
  for (const [at, section] of sections.entries()) {
    const token = added.get(section);
    if (token?.lstrip && at > 0) sections[at - 1] = sections[at - 1]!.trimEnd();
    if (token?.rstrip && at + 1 < sections.length) sections[at + 1] = sections[at + 1]!.trimStart();
  }
  return sections;
}
