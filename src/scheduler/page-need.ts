/** Counts the most KV pages that a request holds. */

import { fedTokens, type ItemWork } from '../protocol/item-work.js';

/** Most pages that a request holds, for its prompt and everything generated or scored after it. */
function itemPages(promptTokens: number, work: ItemWork, pageTokens: number, encodes: boolean): number {
  if (encodes) return encodedPages(promptTokens, fedTokens(work), pageTokens);
  return sequencesOf(promptTokens, work, pageTokens).reduce((sum, { pages }) => sum + pages, 0);
}

/**
 * For a model with an encoder: the decoder's sequences attend to the encoder's and have pages of their own. They are
 * fed the start token and every new token but the last.
 */
function encodedPages(promptTokens: number, fed: readonly number[], pageTokens: number): number {
  return fed.reduce((sum, tokens) => sum + pagesOf(tokens, pageTokens), pagesOf(promptTokens, pageTokens));
}

/** What a KV cache has room for. */
export interface KvRoom {
  /** Whether the model has an encoder, before a decoder or alone. */
  encodes: boolean;
  kvPages: number;
  kvPageTokens: number;
  kvWindows: readonly WindowLayers[];
  /** Tokens of the largest pass. */
  maxBatchTokens: number;
}

/** The most pages that a request holds. */
export interface PageNeed {
  pages: number;
  /** In the layers of each window. */
  windows: WindowNeed[];
}

export function windowSizes(
  { window }: WindowLayers,
  room: Pick<KvRoom, 'kvPageTokens' | 'maxBatchTokens'>,
): WindowSizes {
  return { window, pageTokens: room.kvPageTokens, passTokens: room.maxBatchTokens };
}

/**
 * What a single generation needs to be fed `tokens` tokens and one more. `most` tokens is the most that its sequence
 * comes to hold. In layers with a window it needs no more later.
 */
export function growingNeed(tokens: number, most: number, room: KvRoom): PageNeed {
  const work: ItemWork = { kind: 'generate', maxTokens: most - tokens + 1, logprobs: null, choices: [null] };
  const pages = pagesOf(Math.min(tokens + 1, most), room.kvPageTokens);
  return { ...pageNeed(tokens, work, room), pages };
}

export function pageNeed(promptTokens: number, work: ItemWork, room: KvRoom): PageNeed {
  return {
    pages: itemPages(promptTokens, work, room.kvPageTokens, room.encodes),
    windows: room.kvWindows.map((layers) => windowNeed(promptTokens, work, windowSizes(layers, room))),
  };
}

export function pagesOf(tokens: number, pageTokens: number): number {
  return Math.ceil(tokens / pageTokens);
}

/**
 * The sequences of a request for a decoder-only model: the pages of all its tokens that are not shared with the prompt,
 * and the most tokens that a pass can feed it.
 */
function sequencesOf(
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

/** The `window` of recurrent layers. A sequence has one page there, its state, however many tokens it has. */
export const RECURRENT = 0;

/**
 * The pages of all layers with one window. Between passes a sequence holds the pages of its last window - 1 tokens,
 * which the next token sees. During a pass it also holds the pages of its new tokens.
 */
interface WindowLayers {
  window: number;
  pages: number;
}

/** The most pages that a request holds in these layers. */
export interface WindowNeed {
  /** If it runs its largest chunks. */
  alone: number;
  /** Beside the tokens of one pass, which all running requests share. */
  beside: number;
}

interface WindowSizes {
  window: number;
  pageTokens: number;
  /** Tokens of the largest pass. */
  passTokens: number;
}

function windowNeed(promptTokens: number, work: ItemWork, sizes: WindowSizes): WindowNeed {
  const { window, pageTokens, passTokens } = sizes;
  if (window === RECURRENT) {
    const states = sequencesOf(promptTokens, work, pageTokens).length;
    return { alone: states, beside: states };
  }
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
  if (window === RECURRENT) return alone;
  // What one sequence with all tokens of a pass holds, less what `beside` counts for it.
  const shared = pagesTouched(window - 1 + passTokens, pageTokens) - besidePages(sizes);
  return Math.min(alone, shared + beside);
}

/** What running requests may hold in the layers of one window. */
export class WindowPages {
  readonly #pages: number;
  readonly #sizes: WindowSizes;
  readonly #held: WindowNeed = { alone: 0, beside: 0 };

  constructor(pages: number, sizes: WindowSizes) {
    this.#pages = pages;
    this.#sizes = sizes;
  }

  /** Pages that no running request may come to hold. */
  get free(): number {
    return this.#pages - leastPages(this.#held, this.#sizes);
  }

  /** Whether the request fits beside those that run. */
  fits({ alone, beside }: WindowNeed): boolean {
    const all = { alone: this.#held.alone + alone, beside: this.#held.beside + beside };
    return leastPages(all, this.#sizes) <= this.#pages;
  }

  /** `sign` is 1 for a request that starts and -1 for one that ends. */
  add({ alone, beside }: WindowNeed, sign: 1 | -1): void {
    this.#held.alone += sign * alone;
    this.#held.beside += sign * beside;
  }
}
