/** Finds stop strings in text that arrives in chunks. It holds back text that may begin a stop string. */

export class StopStrings {
  readonly #stops: readonly StopString[];
  #held = '';

  constructor(stops: readonly string[]) {
    this.#stops = stops.map((stop) => new StopString(stop));
  }

  /** Returns the text that cannot begin a stop string. When `stopped`, it ends before the stop string. */
  push(text: string): { text: string; stopped: boolean } {
    const whole = this.#held + text;
    const ends = this.#stops.map((stop) => ({ stop, end: stop.push(text) }));
    const found = ends.filter(({ end }) => end !== undefined);
    if (found.length > 0) {
      const begins = found.map(({ stop, end }) => this.#held.length + end! - stop.length);
      this.#held = '';
      return { text: whole.slice(0, Math.min(...begins)), stopped: true };
    }
    const certain = whole.length - Math.max(0, ...this.#stops.map(({ begun }) => begun));
    this.#held = whole.slice(certain);
    return { text: whole.slice(0, certain), stopped: false };
  }

  /** Returns the text that was held back. Call it when no text follows. */
  finish(): string {
    const text = this.#held;
    this.#held = '';
    return text;
  }
}

/** Looks for one stop string (Knuth, Morris and Pratt): a long one costs no more than a short one. */
class StopString {
  readonly #text: string;
  /** By length: the longest shorter beginning of the text that also ends its beginning of that length. */
  readonly #shorter: Int32Array;
  /** Characters of the stop string that end the text so far. */
  begun = 0;

  constructor(text: string) {
    this.#text = text;
    this.#shorter = new Int32Array(text.length + 1);
    for (let length = 2, begun = 0; length <= text.length; length += 1) {
      begun = this.#step(begun, text[length - 1]!);
      this.#shorter[length] = begun;
    }
  }

  get length(): number {
    return this.#text.length;
  }

  /** Returns where the first occurrence ends in `text`, or undefined. */
  push(text: string): number | undefined {
    for (let at = 0; at < text.length; at += 1) {
      this.begun = this.#step(this.begun, text[at]!);
      if (this.begun === this.#text.length) return at + 1;
    }
    return undefined;
  }

  #step(from: number, character: string): number {
    let begun = from;
    while (begun > 0 && this.#text[begun] !== character) begun = this.#shorter[begun]!;
    return this.#text[begun] === character ? begun + 1 : begun;
  }
}
