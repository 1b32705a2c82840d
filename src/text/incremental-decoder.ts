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
  /** Tokens of a window that is not too long. */
  #most = LONG;

  /** `before` is the token that the text follows: decoding leaves out the space of a first token. */
  constructor(decode: Decode, before?: number) {
    this.#decode = decode;
    const text = before === undefined ? '' : decode([before]);
    // A part of a character would make one with the tokens that follow.
    if (text === '' || text.endsWith('\ufffd')) return;
    this.#window = [before!];
    this.#anchor = 1;
    this.#anchorText = text;
  }

  /** Returns the text that became certain with this token. It may be empty. */
  push(id: number): string {
    this.#window.push(id);
    const text = this.#decode(this.#window);
    // A replacement character at the end is usually a character whose remaining bytes are in later tokens.
    if (text.endsWith('\ufffd')) return this.#window.length - this.#anchor > LONG ? this.#cut(text) : '';
    const piece = this.#advance(text);
    if (this.#window.length > this.#most) this.#shorten(text);
    return piece;
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

  /**
   * Shortens a window that tokens without a text of their own have made long, such as special ones, or spaces where a
   * leading one is stripped: to the last tokens that have a text together, or to those that have one next to others.
   */
  #shorten(text: string): void {
    const ends = [2, 3, MOST_BYTES].map((length) => this.#window.slice(-length));
    const telling = this.#window.filter((id) => this.#decode([id, id]) !== '');
    const end = ends.find((ids) => this.#decode(ids) !== '' && text.endsWith(this.#decode(ids)));
    const shorter = end ?? (this.#decode(telling) === text ? telling : this.#window);
    this.#window = shorter;
    this.#anchor = shorter.length;
    this.#anchorText = this.#decode(shorter);
    // What cannot be shortened is not tried again with each token.
    this.#most = Math.max(LONG, 2 * shorter.length);
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
