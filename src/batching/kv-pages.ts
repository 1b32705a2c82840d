/** Counts KV cache pages before a pass is run, so that no native pass fails because the cache is full. */
import { fedTokens, type ItemWork } from '../protocol/item-work.js';
import {
  pagesOf,
  type WindowLayers,
  type WindowNeed,
  WindowPages,
  type WindowSizes,
  windowNeed,
} from './window-pages.js';

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

export function pageNeed(promptTokens: number, work: ItemWork, room: KvRoom): PageNeed {
  return {
    pages: itemPages(promptTokens, work, room.kvPageTokens, room.encoderDecoder),
    windows: room.kvWindows.map((layers) => windowNeed(promptTokens, work, windowSizes(layers, room))),
  };
}

export class KvPages {
  readonly room: KvRoom;
  readonly #windows: WindowPages[];
  #free: number;

  constructor(room: KvRoom) {
    this.room = room;
    this.#free = room.kvPages;
    this.#windows = room.kvWindows.map((layers) => new WindowPages(layers.pages, windowSizes(layers, room)));
  }

  get total(): number {
    return this.room.kvPages;
  }

  get free(): number {
    return this.#free;
  }

  /** Reserves the pages and returns true, or returns false if fewer are free. */
  reserve({ pages, windows }: PageNeed): boolean {
    if (pages > this.#free || !this.#windows.every((layers, i) => layers.fits(windows[i]!))) return false;
    this.#free -= pages;
    this.#windows.forEach((layers, i) => {
      layers.add(windows[i]!, 1);
    });
    return true;
  }

  release({ pages, windows }: PageNeed): void {
    this.#free += pages;
    this.#windows.forEach((layers, i) => {
      layers.add(windows[i]!, -1);
    });
    if (this.#free > this.total) {
      throw new Error(`${this.#free} of ${this.total} KV pages are free. This is a bug.`);
    }
  }
}
