/** Reads answers in which tags enclose reasoning and tool calls, as Qwen3's and Hermes' do. */
import { REASONING_TAGS, TOOL_CALL_TAGS } from './answer-format.js';
import type { AnswerParser, AnswerPart } from './answer-parts.js';
import { ToolCallReader } from './tool-call-reader.js';

const [THINK, THINK_END] = REASONING_TAGS;
const [CALL, CALL_END] = TOOL_CALL_TAGS;

export class TagsParser implements AnswerParser {
  readonly #toolCalls: boolean;
  #state: 'start' | 'reasoning' | 'content' | 'call';
  /** Text that is not yet passed on: it may be the beginning of a tag. */
  #buffer = '';
  /** White space at the start of the answer, which comes before the buffer. */
  readonly #blank: string[] = [];
  #trimmed = new TrimmedText(false);
  #call = new ToolCallReader(0);
  #calls = 0;

  constructor({ reasoning, toolCalls }: { reasoning: boolean; toolCalls: boolean }) {
    this.#toolCalls = toolCalls;
    // Reasoning comes before anything else.
    this.#state = reasoning ? 'start' : 'content';
  }

  push(text: string): AnswerPart[] {
    this.#buffer += text;
    const parts: AnswerPart[] = [];
    while (this.#step(parts));
    return joined(parts);
  }

  finish(): AnswerPart[] {
    const parts: AnswerPart[] = [];
    if (this.#state === 'start') this.#beginContent();
    this.#take(this.#buffer, parts);
    this.#buffer = '';
    if (this.#state === 'call') this.#endCall('', parts);
    if (this.#state === 'content') this.#add('content', this.#trimmed.rest(), parts);
    return joined(parts);
  }

  /** Returns whether there may be more to do. */
  #step(parts: AnswerPart[]): boolean {
    if (this.#state === 'start') return this.#begin();
    const tag = { reasoning: THINK_END, content: CALL, call: CALL_END }[this.#state];
    const watched = this.#state !== 'content' || this.#toolCalls;
    const at = watched ? this.#buffer.indexOf(tag) : -1;
    const certain = at >= 0 ? at : this.#buffer.length - (watched ? begunAtEnd(this.#buffer, tag) : 0);
    this.#take(this.#buffer.slice(0, certain), parts);
    this.#buffer = this.#buffer.slice(certain);
    if (at < 0) return false;
    this.#buffer = this.#buffer.slice(tag.length);
    this.#pass(parts);
    return true;
  }

  /** Decides how the answer begins, as soon as its first characters tell. */
  #begin(): boolean {
    const begun = this.#buffer.trimStart();
    if (begun.length < this.#buffer.length) {
      this.#blank.push(this.#buffer.slice(0, this.#buffer.length - begun.length));
      this.#buffer = begun;
    }
    if (begun.startsWith(THINK)) {
      this.#buffer = begun.slice(THINK.length);
      this.#enter('reasoning', true);
      return true;
    }
    if (THINK.startsWith(begun)) return false;
    this.#beginContent();
    return true;
  }

  #beginContent(): void {
    this.#buffer = this.#blank.join('') + this.#buffer;
    this.#enter('content', false);
  }

  /** Leaves the present part at its tag. */
  #pass(parts: AnswerPart[]): void {
    if (this.#state === 'reasoning') this.#enter('content', true);
    else if (this.#state === 'call') this.#endCall(CALL_END, parts);
    else {
      this.#state = 'call';
      this.#call = new ToolCallReader(this.#calls);
    }
  }

  #enter(state: 'reasoning' | 'content', trimStart: boolean): void {
    this.#state = state;
    this.#trimmed = new TrimmedText(trimStart);
  }

  #take(text: string, parts: AnswerPart[]): void {
    if (text === '') return;
    if (this.#state === 'call') this.#addCalls(this.#call.push(text), parts);
    else if (this.#state !== 'start') this.#add(this.#state, this.#trimmed.push(text), parts);
  }

  /** `end` is the tag that ended the call, if one did. */
  #endCall(end: string, parts: AnswerPart[]): void {
    const found = this.#call.finish();
    // White space before a call and after it is left out.
    this.#enter('content', true);
    if (found !== undefined) this.#addCalls(found, parts);
    else this.#add('content', `${CALL}${this.#call.text}${end}`, parts);
  }

  #addCalls(found: AnswerPart[], parts: AnswerPart[]): void {
    this.#calls += found.filter(({ kind }) => kind === 'call').length;
    parts.push(...found);
  }

  #add(kind: 'reasoning' | 'content', text: string, parts: AnswerPart[]): void {
    if (text !== '') parts.push({ kind, text });
  }
}

/** Characters at the end of the text that begin the tag. */
function begunAtEnd(text: string, tag: string): number {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length -= 1) {
    if (text.endsWith(tag.slice(0, length))) return length;
  }
  return 0;
}

/** Joins neighbouring texts of the same kind. */
function joined(parts: AnswerPart[]): AnswerPart[] {
  const found: AnswerPart[] = [];
  for (const part of parts) {
    const last = found.at(-1);
    if (last?.kind === part.kind && (last.kind === 'content' || last.kind === 'reasoning'))
      last.text += (part as typeof last).text;
    else found.push({ ...part });
  }
  return found;
}

/** Passes text on without the line breaks before it, and holds the white space at its end back. */
class TrimmedText {
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
