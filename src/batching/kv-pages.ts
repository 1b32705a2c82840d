/** The most KV cache pages that an input holds. */
import { fedTokens, type ItemWork } from '../protocol/item-work.js';
import { pagesOf, type WindowLayers, type WindowNeed, type WindowSizes, windowNeed } from './window-pages.js';

/** Most pages that an input holds, for its prompt and everything generated or scored after it. */
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

/**
 * For an encoder-decoder model: the decoder's sequences attend to the encoder's and have pages of their own. They are
 * fed the start token and every new token but the last.
 */
function besidePages(promptTokens: number, fed: readonly number[], pageTokens: number): number {
  return fed.reduce((sum, tokens) => sum + pagesOf(tokens, pageTokens), pagesOf(promptTokens, pageTokens));
}

/**
 * For a decoder-only model: a single generation continues in the prompt's pages. Several sequences share the prompt's
 * full pages, and each copies its last page.
 */
function continuingPages(
  promptTokens: number,
  kind: ItemWork['kind'],
  fed: readonly number[],
  pageTokens: number,
): number {
  // A generation is not fed its last new token.
  const more = kind === 'generate' ? fed.map((tokens) => tokens - 1) : fed;
  if (kind === 'generate' && more.length === 1) return pagesOf(promptTokens + more[0]!, pageTokens);
  const shared = Math.floor(promptTokens / pageTokens);
  return more.reduce(
    (sum, tokens) => sum + (tokens > 0 ? pagesOf(promptTokens + tokens, pageTokens) - shared : 0),
    pagesOf(promptTokens, pageTokens),
  );
}

/** What a KV cache has room for. */
export interface KvRoom {
  encoderDecoder: boolean;
  kvPages: number;
  kvPageTokens: number;
  kvWindows: readonly WindowLayers[];
  /** Tokens of the largest pass. */
  maxBatchTokens: number;
}

/** The most pages that an input holds. */
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
    pages: itemPages(promptTokens, work, room.kvPageTokens, room.encoderDecoder),
    windows: room.kvWindows.map((layers) => windowNeed(promptTokens, work, windowSizes(layers, room))),
  };
}
