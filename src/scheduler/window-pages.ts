/**
 * Counts the KV pages of layers that see only a window. Between passes a sequence holds the pages of the window - 1
 * tokens that its next token sees, with the page that it began, and in a pass also those of its new tokens.
 */
import type { ItemWork } from '../protocol/item-work.js';
import { pagesOf, sequencesOf } from './sequence-pages.js';

/** The pages of all layers with one window. */
export interface WindowLayers {
  window: number;
  pages: number;
}

/** The most pages that an input holds in these layers. */
export interface WindowNeed {
  /** If it runs its largest chunks. */
  alone: number;
  /** Beside the tokens of one pass, which all running inputs share. */
  beside: number;
}

export interface WindowSizes {
  window: number;
  pageTokens: number;
  /** Tokens of the largest pass. */
  passTokens: number;
}

export function windowNeed(promptTokens: number, work: ItemWork, sizes: WindowSizes): WindowNeed {
  const { window, pageTokens, passTokens } = sizes;
  const [prompt, ...continued] = sequencesOf(promptTokens, work, pageTokens).map(({ pages, chunk }) => ({
    pages,
    alone: Math.min(pages, pagesTouched(Math.min(chunk, passTokens) + window - 1, pageTokens)),
    beside: Math.min(pages, besidePages(sizes)),
  }));
  // Sequences that continue the prompt begin when it has run; it then holds what its next token would see.
  const held = Math.min(prompt!.pages, besidePages(sizes) - 1);
  const together = (figure: 'alone' | 'beside') =>
    Math.max(
      prompt![figure],
      continued.reduce((sum, sequence) => sum + sequence[figure], held),
    );
  return { alone: together('alone'), beside: together('beside') };
}

/** Pages that neighbouring tokens touch at most, wherever the first one lies in its page. */
function pagesTouched(tokens: number, pageTokens: number): number {
  return pagesOf(tokens - 1, pageTokens) + 1;
}

/** What a sequence beyond its window holds between passes, and a page that its next tokens begin. */
function besidePages({ window, pageTokens }: WindowSizes): number {
  return pagesTouched(Math.max(window - 1, 1), pageTokens) + 1;
}

/** Pages that suffice for these needs together: the smaller of two bounds. */
export function leastPages({ alone, beside }: WindowNeed, sizes: WindowSizes): number {
  const { window, pageTokens, passTokens } = sizes;
  // What one sequence with all tokens of a pass holds, less what `beside` counts for it.
  const shared = pagesTouched(window - 1 + passTokens, pageTokens) - besidePages(sizes);
  return Math.min(alone, shared + beside);
}

/** What running inputs may hold in the layers of one window. */
export class WindowPages {
  readonly #pages: number;
  readonly #sizes: WindowSizes;
  readonly #held: WindowNeed = { alone: 0, beside: 0 };

  constructor(pages: number, sizes: WindowSizes) {
    this.#pages = pages;
    this.#sizes = sizes;
  }

  /** Whether the input fits beside those that run. */
  fits({ alone, beside }: WindowNeed): boolean {
    const all = { alone: this.#held.alone + alone, beside: this.#held.beside + beside };
    return leastPages(all, this.#sizes) <= this.#pages;
  }

  /** `sign` is 1 for an input that starts and -1 for one that ends. */
  add({ alone, beside }: WindowNeed, sign: 1 | -1): void {
    this.#held.alone += sign * alone;
    this.#held.beside += sign * beside;
  }
}
