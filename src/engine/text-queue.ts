/**
 * Texts that wait for the tokenizer thread. Jobs are served in the order in which they came. What is left of a job
 * after its turn waits behind the other jobs.
 */
import type { IdsToDecode, TextToEncode } from '../protocol/tokenizer-messages.js';

export interface WaitingText<Owner> {
  work: TextToEncode | IdsToDecode;
  owner: Owner;
  /** Position among the texts of its owner. */
  index: number;
  bytes: number;
}

export class TextQueue<Owner> {
  /** In the order in which they are served. */
  readonly #jobs = new Map<Owner, WaitingText<Owner>[]>();
  #size = 0;
  #bytes = 0;

  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(text: WaitingText<Owner>): void {
    const texts = this.#jobs.get(text.owner) ?? [];
    texts.push(text);
    this.#jobs.set(text.owner, texts);
    this.#count(text, 1);
  }

  /** Removes the next text, and those after it while all together have at most `bytes`. */
  take(bytes: number): WaitingText<Owner>[] {
    const taken: WaitingText<Owner>[] = [];
    let sum = 0;
    for (const [owner, texts] of this.#jobs) {
      const others = taken.length;
      let count = 0;
      for (; count < texts.length; count += 1) {
        sum += texts[count]!.bytes;
        if (others + count > 0 && sum > bytes) break;
      }
      taken.push(...texts.splice(0, count));
      if (texts.length > 0 && others > 0) break;
      this.#jobs.delete(owner);
      if (texts.length === 0) continue;
      this.#jobs.set(owner, texts);
      break;
    }
    for (const text of taken) this.#count(text, -1);
    return taken;
  }

  remove(owner: Owner): void {
    for (const text of this.#jobs.get(owner) ?? []) this.#count(text, -1);
    this.#jobs.delete(owner);
  }

  #count({ bytes }: WaitingText<Owner>, sign: 1 | -1): void {
    this.#size += sign;
    this.#bytes += sign * bytes;
  }
}
