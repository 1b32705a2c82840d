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
    const begins = this.#stops.map((stop) => whole.indexOf(stop)).filter((at) => at >= 0);
    const held = this.#stops.map((stop) => overlap(whole, stop));
    const end = begins.length > 0 ? Math.min(...begins) : whole.length - Math.max(0, ...held);
    const stopped = begins.length > 0;
    this.#held = stopped ? '' : whole.slice(end);
    return { text: whole.slice(0, end), stopped };
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
