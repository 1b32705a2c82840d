/** Passes text on without the line breaks before it, and holds the white space at its end back. */
export class TrimmedText {
  #atStart: boolean;
  /** Joined only once other text follows: a model may write white space without end. */
  #held: string[] = [];

  /** `trimStart`: whether line breaks before the text are left out. */
  constructor(trimStart: boolean) {
    this.#atStart = trimStart;
  }

  /** Returns the text that is certain to stand before other text. */
  push(text: string): string {
    const more = this.#atStart ? text.replace(/^[\r\n]+/, '') : text;
    if (more === '') return '';
    this.#atStart = false;
    const end = more.trimEnd().length;
    const certain = end === 0 ? '' : this.rest() + more.slice(0, end);
    if (end < more.length) this.#held.push(more.slice(end));
    return certain;
  }

  /** Returns the white space that was held back. */
  rest(): string {
    const rest = this.#held.join('');
    this.#held = [];
    return rest;
  }
}
