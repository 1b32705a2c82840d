/** Texts that wait for the tokenizer thread: shorter ones first, and older ones before younger. */
import type { TextToEncode } from '../protocol/tokenizer-messages.js';

export interface WaitingText<Owner> extends TextToEncode {
  owner: Owner;
  /** Position among the texts of its owner. */
  index: number;
  bytes: number;
  arrivedMs: number;
}

/**
 * A text passes those that have so many bytes less for each millisecond that they came later: one of 4 KiB waits four
 * seconds at most for shorter ones.
 */
const BYTES_PER_MS = 1;

export class TextQueue<Owner> {
  /** The next text is the last. */
  readonly #texts: WaitingText<Owner>[] = [];
  #bytes = 0;

  get size(): number {
    return this.#texts.length;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(text: WaitingText<Owner>): void {
    const key = keyOf(text);
    let low = 0;
    let high = this.#texts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      // Of equal keys, the text that came first stays nearer to the end.
      if (keyOf(this.#texts[middle]!) > key) low = middle + 1;
      else high = middle;
    }
    this.#texts.splice(low, 0, text);
    this.#bytes += text.bytes;
  }

  /** Removes the next text, and those after it while all together have at most `bytes`. */
  take(bytes: number): WaitingText<Owner>[] {
    const taken: WaitingText<Owner>[] = [];
    let sum = 0;
    for (let next = this.#texts.at(-1); next !== undefined; next = this.#texts.at(-1)) {
      sum += next.bytes;
      if (taken.length > 0 && sum > bytes) break;
      taken.push(this.#texts.pop()!);
      this.#bytes -= next.bytes;
    }
    return taken;
  }

  remove(owner: Owner): void {
    const kept = this.#texts.filter((text) => text.owner !== owner);
    this.#texts.splice(0, this.#texts.length, ...kept);
    this.#bytes = kept.reduce((sum, text) => sum + text.bytes, 0);
  }
}

function keyOf({ bytes, arrivedMs }: WaitingText<unknown>): number {
  return bytes + BYTES_PER_MS * arrivedMs;
}
