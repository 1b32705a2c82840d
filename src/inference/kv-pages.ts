/** KV cache pages, counted before the native engine is asked, so that a step never fails for want of room. */
import type { ItemWork } from './messages.js';

export function pagesOf(tokens: number, pageTokens: number): number {
  return Math.ceil(tokens / pageTokens);
}

/** Pages an input holds at most: its encoder context and its decoder sequences. */
export function itemPages(inputTokens: number, work: ItemWork, pageTokens: number): number {
  const context = pagesOf(inputTokens, pageTokens);
  // Generation feeds the start token and every new token but the last.
  if (work.kind === 'generate') return context + pagesOf(work.maxTokens, pageTokens);
  return work.plan.inputs.reduce((sum, input) => sum + pagesOf(input.tokens.length, pageTokens), context);
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
