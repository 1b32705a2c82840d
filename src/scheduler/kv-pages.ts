/** The most KV cache pages that an input holds. */
import { fedTokens, type ItemWork } from '../protocol/item-work.js';
import { pagesOf, sequencesOf } from './sequence-pages.js';
import { type WindowLayers, type WindowNeed, type WindowSizes, windowNeed } from './window-pages.js';

/** Most pages that an input holds, for its prompt and everything generated or scored after it. */
function itemPages(
  promptTokens: number,
  work: ItemWork,
  pageTokens: number,
  encoderDecoder: boolean,
): number {
  if (encoderDecoder) return besidePages(promptTokens, fedTokens(work), pageTokens);
  return sequencesOf(promptTokens, work, pageTokens).reduce((sum, { pages }) => sum + pages, 0);
}

/**
 * For an encoder-decoder model: the decoder's sequences attend to the encoder's and have pages of their own. They are
 * fed the start token and every new token but the last.
 */
function besidePages(promptTokens: number, fed: readonly number[], pageTokens: number): number {
  return fed.reduce((sum, tokens) => sum + pagesOf(tokens, pageTokens), pagesOf(promptTokens, pageTokens));
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
