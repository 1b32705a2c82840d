/** Counts the tokens of the reasoning in an answer, while it is generated. */
import type { AnswerFormat } from '../../text/chat/answer-format.js';
import { answerParser } from '../../text/chat/answer-parser.js';
import type { AnswerParser } from '../../text/chat/answer-parts.js';

export class ReasoningCount {
  /** Undefined for a model that writes no reasoning. */
  readonly #parser: AnswerParser | undefined;
  /** Tokens since the last part, such as those of a tag. They belong to the part that follows. */
  #waiting = 0;
  #tokens = 0;

  constructor(format: AnswerFormat, tools: boolean) {
    const reasons = format.kind === 'channels' || format.reasoning;
    this.#parser = reasons ? answerParser(format, tools) : undefined;
  }

  get tokens(): number {
    return this.#tokens;
  }

  /** Takes what one token adds to the text, and whether it is the last. */
  push(text: string, last: boolean): void {
    if (this.#parser === undefined) return;
    this.#waiting += 1;
    const parts = this.#parser.push(text);
    if (last) parts.push(...this.#parser.finish());
    if (parts.length === 0) return;
    if (parts.some(({ kind }) => kind === 'reasoning')) this.#tokens += this.#waiting;
    this.#waiting = 0;
  }
}
