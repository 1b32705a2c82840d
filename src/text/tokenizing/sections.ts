/** Encodes the sections of a text between its added tokens. The library's own walk copies all tokens twice, slowly. */
import type { Pace } from './pace.js';

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
export function encodeSections(
  library: SectionParts,
  text: string,
  pace: Pace,
  marked?: MarkedText,
): string[] {
  const normalize = library.normalizer as ((text: string) => string) | null;
  const words = library.pre_tokenizer as ((text: string, at: { section_index: number }) => string[]) | null;
  const encode = library.model as (words: string[]) => string[];
  const { added_tokens_map: added } = library;
  const tokens: string[] = [];
  const splitter = marked?.unnormalized ?? library.splitter_unnormalized;
  const inner = marked?.normalized ?? library.splitter_normalized;
  const encodeText = (section: string, index: number): string[] => {
    const found: string[] = [];
    const normalized = section === '' || normalize === null ? section : normalize(section);
    if (normalized === '') return found;
    for (const part of sectionsOf(normalized, inner, added)) {
      if (part === '') continue;
      if (added.has(part) && !marked?.controls.has(part)) found.push(part);
      else append(found, encode(words === null ? [part] : words(part, { section_index: index })), pace);
    }
    return found;
  };
  for (const [index, section] of sectionsOf(text, splitter, added).entries()) {
    if (added.has(section)) tokens.push(section);
    else if (marked === undefined) append(tokens, encodeText(section, index), pace);
    else
      append(
        tokens,
        encodeMarked(section, marked, (piece) => encodeText(piece, index)),
        pace,
      );
  }
  return tokens;
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

function append(tokens: string[], more: readonly string[], pace: Pace): void {
  for (const token of more) {
    pace.step();
    tokens.push(token);
  }
}
