/** Finds stop strings in text that arrives in chunks. It holds back text that may begin a stop string. */

export class StopStrings {
  readonly #stops: readonly string[];
  #held = '';

  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  /** Returns the text that cannot begin a stop string. It ends before `stop`, the stop string that was found. */
  push(text: string): { text: string; stop: string | undefined } {
    const whole = this.#held + text;
    const found = this.#stops
      .map((stop) => ({ stop, at: whole.indexOf(stop) }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at)[0];
    const held = this.#stops.map((stop) => overlap(whole, stop));
    const end = found?.at ?? whole.length - Math.max(0, ...held);
    this.#held = found === undefined ? whole.slice(end) : '';
    return { text: whole.slice(0, end), stop: found?.stop };
  }

  /** Returns the text that was held back. Call it when no text follows. */
  finish(): string {
    const text = this.#held;
    this.#held = '';
    return text;
  }
}

/** Length of the longest end of `text` that `word` begins with. */
export function overlap(text: string, word: string): number {
  let length = Math.min(text.length, word.length);
  while (!text.endsWith(word.slice(0, length))) length -= 1;
  return length;
}
