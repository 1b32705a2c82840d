/** Turns token ids that arrive one by one into pieces of text whose concatenation is the decoded whole. */

type Decode = (ids: number[]) => string;

export class IncrementalDecoder {
  readonly #decode: Decode;
  /** Ids of the current window: the anchor (already given out) and what came after it. */
  #window: number[] = [];
  #anchor = 0;
  #anchorText = '';

  constructor(decode: Decode) {
    this.#decode = decode;
  }

  /** The text that became certain with this token; may be empty. */
  push(id: number): string {
    this.#window.push(id);
    const text = this.#decode(this.#window);
    // A replacement character at the end is most often a character whose bytes are still to come.
    if (text.endsWith('\ufffd')) return '';
    return this.#advance(text);
  }

  /** The text still held back when no token follows. */
  finish(): string {
    return this.#advance(this.#decode(this.#window));
  }

  #advance(text: string): string {
    const piece = text.slice(this.#anchorText.length);
    // The first piece of a decoded list loses its leading space, so the window must begin with a token that has text.
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
