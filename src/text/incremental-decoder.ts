/** Decodes token ids one by one into deltas of text. The deltas together are the decoded text of all ids. */

type Decode = (ids: number[]) => string;

/** Most bytes of a character, and so most tokens that it spans. */
const MOST_BYTES = 4;
/** More tokens than any character spans. */
const LONG = 16;

export class IncrementalDecoder {
  readonly #decode: Decode;
  /** Ids of the current window: the anchor, whose text has been returned, and the ids after it. */
  #window: number[] = [];
  #anchor = 0;
  #anchorText = '';

  constructor(decode: Decode) {
    this.#decode = decode;
  }

  /** Returns the text that became certain with this token. It may be empty. */
  push(id: number): string {
    this.#window.push(id);
    const text = this.#decode(this.#window);
    // A replacement character at the end is usually a character whose remaining bytes are in later tokens.
    if (text.endsWith('\ufffd')) return this.#window.length - this.#anchor > LONG ? this.#cut(text) : '';
    return this.#advance(text);
  }

  /** Returns the text that is still held back. Call it when no token follows. */
  finish(): string {
    return this.#advance(this.#decode(this.#window));
  }

  /**
   * Forgets the tokens before a place where the text falls into two parts. Without it, tokens that never make up
   * whole characters would be decoded again and again.
   */
  #cut(text: string): string {
    for (let at = this.#window.length - 1; at >= this.#window.length - MOST_BYTES; at -= 1) {
      const head = this.#decode(this.#window.slice(0, at));
      const tail = this.#window.slice(at);
      if (head + this.#decode(tail) !== text) continue;
      const piece = head.slice(this.#anchorText.length);
      this.#window = tail;
      this.#anchor = 0;
      this.#anchorText = '';
      return piece;
    }
    return '';
  }

  #advance(text: string): string {
    const piece = text.slice(this.#anchorText.length);
    // Decoding strips the leading space of the first token, so the window must begin with a token that has text.
    const tail = this.#window.slice(this.#anchor);
    const tailText = this.#decode(tail);
    if (this.#anchor > 0 && tailText !== '') {
      this.#window = tail;
      this.#anchorText = tailText;
    } else {
      this.#anchorText = text;
    }
    this.#anchor = this.#window.length;
    return piece;
  }
}
