/** Decodes token ids one by one into deltas of text. The deltas together are the decoded text of all ids. */

type Decode = (ids: number[]) => string;

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
    if (text.endsWith('\ufffd')) return '';
    return this.#advance(text);
  }

  /** Returns the text that is still held back. Call it when no token follows. */
  finish(): string {
    return this.#advance(this.#decode(this.#window));
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
