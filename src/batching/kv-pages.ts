import type { ItemWork } from '../protocol/item-work.js';
/** KV cache pages, counted before the native engine is asked, so that a pass never fails for want of room. */

export function pagesOf(tokens: number, pageTokens: number): number {
  return Math.ceil(tokens / pageTokens);
}

/** Pages an input holds at most, its prompt and all that follows it. */
export function itemPages(
  promptTokens: number,
  work: ItemWork,
  pageTokens: number,
  encoderDecoder: boolean,
): number {
  const fed = fedTokens(work);
  return encoderDecoder
    ? besidePages(promptTokens, fed, pageTokens)
    : continuingPages(promptTokens, work.kind, fed, pageTokens);
}

/** Tokens that each sequence after the prompt is fed. */
function fedTokens(work: ItemWork): number[] {
  if (work.kind === 'score') return work.plan.inputs.map(({ tokens }) => tokens.length);
  return work.choices.map(() => work.maxTokens);
}

/** The decoder's sequences attend across to the encoder's: start token and every new token but the last. */
function besidePages(promptTokens: number, fed: readonly number[], pageTokens: number): number {
  return fed.reduce((sum, tokens) => sum + pagesOf(tokens, pageTokens), pagesOf(promptTokens, pageTokens));
}

/** They continue the prompt's: one alone in its pages, several share its full pages, and each copies its last one. */
function continuingPages(
  promptTokens: number,
  kind: ItemWork['kind'],
  fed: readonly number[],
  pageTokens: number,
): number {
  // A generation feeds every new token but the last.
  const more = kind === 'generate' ? fed.map((tokens) => tokens - 1) : fed;
  if (kind === 'generate' && more.length === 1) return pagesOf(promptTokens + more[0]!, pageTokens);
  const shared = Math.floor(promptTokens / pageTokens);
  return more.reduce(
    (sum, tokens) => sum + (tokens > 0 ? pagesOf(promptTokens + tokens, pageTokens) - shared : 0),
    pagesOf(promptTokens, pageTokens),
  );
}

export class KvPages {
  readonly total: number;
  #free: number;

  constructor(total: number) {
    this.total = total;
    this.#free = total;
  }

  get free(): number {
    return this.#free;
  }

  /** Takes the pages, or nothing when they are not free. */
  reserve(pages: number): boolean {
    if (pages > this.#free) return false;
    this.#free -= pages;
    return true;
  }

  release(pages: number): void {
    this.#free += pages;
    if (this.#free > this.total) {
      throw new Error(`${this.#free} of ${this.total} KV pages are free. This is a bug.`);
    }
  }
}
