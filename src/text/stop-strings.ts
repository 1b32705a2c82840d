/** Finds stop strings in text that arrives in chunks. It holds back text that may begin a stop string. */

export class StopStrings {
  readonly #stops: readonly string[];
  #held = '';

  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  /** Returns the text that cannot begin a stop string. When `stopped`, it ends before the stop string. */
  push(text: string): { text: string; stopped: boolean } {
    const whole = this.#held + text;
    const found = this.#stops.map((stop) => whole.indexOf(stop)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.#held = '';
      return { text: whole.slice(0, Math.min(...found)), stopped: true };
    }
    const certain = whole.length - this.#beginningAtEnd(whole);
    this.#held = whole.slice(certain);
    return { text: whole.slice(0, certain), stopped: false };
  }

  /** Returns the text that was held back. Call it when no text follows. */
  finish(): string {
    const text = this.#held;
    this.#held = '';
    return text;
  }

  /** Length of the longest end of `text` that begins a stop string. */
  #beginningAtEnd(text: string): number {
    let longest = 0;
    for (const stop of this.#stops) {
      for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
        if (text.endsWith(stop.slice(0, length))) longest = length;
      }
    }
    return longest;
  }
}
