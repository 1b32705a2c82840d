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

/** The tokens of the text, without those that a template adds. */
export function encodeSections(library: SectionParts, text: string, pace: Pace): string[] {
  const normalize = library.normalizer as ((text: string) => string) | null;
  const words = library.pre_tokenizer as ((text: string, at: { section_index: number }) => string[]) | null;
  const encode = library.model as (words: string[]) => string[];
  const { added_tokens_map: added } = library;
  const tokens: string[] = [];
  for (const [index, section] of sectionsOf(text, library.splitter_unnormalized, added).entries()) {
    if (added.has(section)) {
      tokens.push(section);
      continue;
    }
    const normalized = section === '' || normalize === null ? section : normalize(section);
    if (normalized === '') continue;
    for (const part of sectionsOf(normalized, library.splitter_normalized, added)) {
      if (part === '') continue;
      if (added.has(part)) tokens.push(part);
      else append(tokens, encode(words === null ? [part] : words(part, { section_index: index })), pace);
    }
  }
  return tokens;
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
