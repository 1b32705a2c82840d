/** Counts the KV pages of single sequences. */
import { fedTokens, type ItemWork } from '../protocol/item-work.js';

export function pagesOf(tokens: number, pageTokens: number): number {
  return Math.ceil(tokens / pageTokens);
}

/**
 * The sequences of an input of a decoder-only model: the pages of all its tokens that are not shared with the prompt,
 * and the most tokens that a pass can feed it.
 */
export function sequencesOf(
  promptTokens: number,
  work: ItemWork,
  pageTokens: number,
): { pages: number; chunk: number }[] {
  // A generation is not fed its last new token, and a single one continues in the prompt's pages. Several sequences
  // share the prompt's full pages, and each copies its last page.
  const fed = (work.kind === 'score' ? fedTokens(work) : fedTokens(work).map((tokens) => tokens - 1)).map(
    (tokens) => ({ tokens, chunk: work.kind === 'score' ? tokens : 1 }),
  );
  if (work.kind === 'generate' && fed.length === 1) {
    return [{ pages: pagesOf(promptTokens + fed[0]!.tokens, pageTokens), chunk: promptTokens }];
  }
  const shared = Math.floor(promptTokens / pageTokens);
  const continued = fed
    .filter(({ tokens }) => tokens > 0)
    .map(({ tokens, chunk }) => ({ pages: pagesOf(promptTokens + tokens, pageTokens) - shared, chunk }));
  return [{ pages: pagesOf(promptTokens, pageTokens), chunk: promptTokens }, ...continued];
}
