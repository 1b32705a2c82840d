/** Passes text on without the line breaks before it, and holds the white space at its end back. */
export class TrimmedText {
  #atStart: boolean;
  #held = '';

  /** `trimStart`: whether line breaks before the text are left out. */
  constructor(trimStart: boolean) {
    this.#atStart = trimStart;
  }

  /** Returns the text that is certain to stand before other text. */
  push(text: string): string {
    const more = this.#atStart ? text.replace(/^[\r\n]+/, '') : text;
    if (more === '') return '';
    this.#atStart = false;
    const whole = this.#held + more;
    const end = whole.trimEnd().length;
    this.#held = whole.slice(end);
    return whole.slice(0, end);
  }

  /** Returns the white space that was held back. */
  rest(): string {
    const rest = this.#held;
    this.#held = '';
    return rest;
  }
}
