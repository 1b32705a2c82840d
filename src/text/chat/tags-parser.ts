/** Reads answers in which marks enclose reasoning and tool calls. */
import { escapePattern } from '../escape-pattern.js';
import { type AnswerFormat, reasoningTags } from './answer-format.js';
import { type AnswerParser, type AnswerPart, appendParts } from './answer-parts.js';
import { begunAtEnd, withoutPart } from './call-arguments.js';
import { beginsOf } from './call-forms.js';
import { type CallReading, callReading, ToolCallReader } from './tool-call-reader.js';

/** White space between a tag and its repetition. */
const MOST_BLANK = 64;

type TagsFormat = Extract<AnswerFormat, { kind: 'tags' }>;

/** A call, and the mark at which it begins. */
interface Call {
  mark: string;
  reader: ToolCallReader;
  /** Characters of the mark that the reader has got. */
  read: number;
}

export class TagsParser implements AnswerParser {
  readonly #reading: CallReading | undefined;
  readonly #boundCalls: boolean;
  /** Around reasoning. */
  readonly #tags: readonly [begin: string, end: string];
  readonly #sectionEnd: string | undefined;
  #state: 'start' | 'reasoning' | 'content' | 'call';
  /** Text that is not yet passed on: it may be the beginning of a mark. */
  #buffer = '';
  /** White space at the start of the answer, which comes before the buffer. */
  readonly #blank: string[] = [];
  #trimmed = new TrimmedText(false);
  #call: Call | undefined;
  #calls = 0;
  /** What looks like a call within reasoning. It is one if the reasoning has no end. */
  #draft: (Call & { texts: string[]; tail: string }) | undefined;
  /** What is looked for within reasoning, and within content. */
  readonly #marks: Record<'reasoning' | 'content', Marks>;

  /** `tools`: whether calls are read. Otherwise they are content. */
  constructor(
    { reasoning, reasoningForm, toolCalls, callForm, argumentTypes, boundCalls }: TagsFormat,
    tools: boolean,
  ) {
    this.#tags = reasoningTags(reasoningForm);
    // Reasoning comes before anything else.
    this.#state = reasoning ? 'start' : 'content';
    this.#boundCalls = boundCalls ?? false;
    if (toolCalls && tools) this.#reading = callReading(callForm ?? 'hermes', argumentTypes);
    const [form] = this.#reading?.forms ?? [];
    const begins = form === undefined ? [] : beginsOf(form);
    this.#sectionEnd = form?.section?.end;
    this.#marks = {
      reasoning: new Marks([this.#tags[1], ...begins]),
      content: new Marks(begins.concat(this.#sectionEnd ?? [])),
    };
  }

  push(text: string): AnswerPart[] {
    this.#buffer += text;
    const parts: AnswerPart[] = [];
    while (this.#step(parts));
    return joined(parts);
  }

  finish(): AnswerPart[] {
    const parts: AnswerPart[] = [];
    if (this.#draft !== undefined) {
      // The reasoning had no end, so the call ended it.
      this.#buffer = this.#draft.texts.join('') + this.#buffer;
      this.#draft = undefined;
      this.#enter('content', true);
      while (this.#step(parts));
    }
    if (this.#state === 'start') this.#beginContent();
    if (this.#state === 'call') {
      const { mark, reader, read } = this.#call!;
      this.#addCalls(reader.finish(), parts);
      if (reader.state === 'failed' && !this.#boundCalls) {
        this.#state = 'content';
        this.#take(mark + reader.rest.slice(read), parts);
      } else this.#enter('content', true);
    } else if (!(this.#boundCalls && this.#state === 'content' && this.#trimmed.atStart))
      this.#take(this.#buffer, parts);
    this.#buffer = '';
    if (this.#state === 'content') this.#add('content', this.#trimmed.rest(), parts);
    return joined(parts);
  }

  /** Returns whether there may be more to do. */
  #step(parts: AnswerPart[]): boolean {
    if (this.#state === 'start') return this.#begin();
    if (this.#state === 'call') return this.#readCall(parts);
    if (this.#draft !== undefined) return this.#readDraft(parts);
    if (this.#state === 'reasoning' && this.#trimmed.atStart && !this.#leaveOutThink()) return false;
    const { at, mark, certain } = this.#marks[this.#state].find(this.#buffer);
    this.#take(this.#buffer.slice(0, certain), parts);
    this.#buffer = this.#buffer.slice(certain);
    if (at === undefined) return false;
    this.#buffer = this.#buffer.slice(mark.length);
    this.#pass(mark);
    return true;
  }

  /** Decides how the answer begins, as soon as its first characters tell. */
  #begin(): boolean {
    const begun = this.#buffer.trimStart();
    if (begun.length < this.#buffer.length) {
      this.#blank.push(this.#buffer.slice(0, this.#buffer.length - begun.length));
      this.#buffer = begun;
    }
    const tag = this.#tags.find((each) => begun.startsWith(each));
    if (tag !== undefined) {
      this.#buffer = begun.slice(tag.length);
      this.#enter(tag === this.#tags[0] ? 'reasoning' : 'content', true);
      return true;
    }
    if (this.#tags.some((each) => each.startsWith(begun))) return false;
    this.#beginContent();
    return true;
  }

  #beginContent(): void {
    this.#buffer = this.#blank.join('') + this.#buffer;
    this.#enter('content', false);
  }

  /** Models repeat the tag that the prompt ends with. Returns whether the first characters tell. */
  #leaveOutThink(): boolean {
    const begun = this.#buffer.trimStart();
    const [think] = this.#tags;
    if (begun.startsWith(think)) this.#buffer = begun.slice(think.length);
    // A model may write white space without end.
    else if (begun === '' ? this.#buffer.length < MOST_BLANK : think.startsWith(begun)) return false;
    return true;
  }

  /** Leaves the present part at a mark. */
  #pass(mark: string): void {
    if (mark === this.#tags[1] || mark === this.#sectionEnd) this.#enter('content', true);
    else if (this.#state === 'reasoning') this.#draft = { ...this.#begun(mark), texts: [mark], tail: '' };
    else {
      this.#state = 'call';
      this.#call = this.#begun(mark);
    }
  }

  #begun(mark: string): Call {
    const reader = new ToolCallReader(this.#reading!, this.#calls);
    const [{ beforeName }] = this.#reading!.forms;
    const read = mark === beforeName.trim() ? mark.length : 0;
    reader.push(mark.slice(0, read));
    return { mark, reader, read };
  }

  #readCall(parts: AnswerPart[]): boolean {
    const { mark, reader, read } = this.#call!;
    if (this.#buffer === '') return false;
    this.#addCalls(reader.push(this.#buffer), parts);
    this.#buffer = '';
    if (reader.state === 'failed') {
      this.#state = 'content';
      this.#take(mark, parts);
      this.#buffer = reader.rest.slice(read);
    } else if (reader.state === 'ended') {
      // White space before a call and after it is left out.
      this.#enter('content', true);
      this.#buffer = reader.rest;
    }
    return this.#state !== 'call';
  }

  #readDraft(parts: AnswerPart[]): boolean {
    const { reader, texts, tail, read } = this.#draft!;
    if (this.#buffer === '') return false;
    if (reader.state !== 'ended') reader.push(this.#buffer);
    texts.push(this.#buffer);
    const [, close] = this.#tags;
    const end = (tail + this.#buffer).indexOf(close);
    this.#draft!.tail = (tail + this.#buffer).slice(1 - close.length);
    const length = tail.length + this.#buffer.length;
    this.#buffer = '';
    if (end < 0 && reader.state !== 'failed') return false;
    // It is a part of the reasoning, up to the tag or to where it is no call.
    const text = texts.join('');
    const rest = end < 0 ? reader.rest.length - read : length - end;
    this.#take(text.slice(0, text.length - rest), parts);
    this.#buffer = text.slice(text.length - rest);
    this.#draft = undefined;
    return true;
  }

  #enter(state: 'reasoning' | 'content', trimStart: boolean): void {
    this.#state = state;
    this.#trimmed = new TrimmedText(trimStart);
  }

  #take(text: string, parts: AnswerPart[]): void {
    if (this.#state === 'reasoning' || this.#state === 'content')
      this.#add(this.#state, this.#trimmed.push(text), parts);
  }

  #addCalls(found: AnswerPart[], parts: AnswerPart[]): void {
    this.#calls += found.filter(({ kind }) => kind === 'call').length;
    parts.push(...found);
  }

  #add(kind: 'reasoning' | 'content', text: string, parts: AnswerPart[]): void {
    if (text !== '') parts.push({ kind, text });
  }
}

/** Finds the first of several marks. */
class Marks {
  readonly #all: readonly string[];
  readonly #any: RegExp;

  constructor(all: readonly string[]) {
    this.#all = all;
    this.#any = new RegExp(all.length === 0 ? '(?!)' : all.map(escapePattern).join('|'));
  }

  /** `certain`: the length of the text before it, or before what may be the beginning of one. */
  find(text: string): { at: number | undefined; mark: string; certain: number } {
    const found = this.#any.exec(text);
    if (found !== null) return { at: found.index, mark: found[0], certain: found.index };
    const whole = withoutPart(text);
    const begun = Math.max(0, ...this.#all.map((mark) => begunAtEnd(whole, mark)));
    return { at: undefined, mark: '', certain: begun === 0 ? text.length : whole.length - begun };
  }
}

function joined(parts: AnswerPart[]): AnswerPart[] {
  const found: AnswerPart[] = [];
  appendParts(found, parts);
  return found;
}

/** Passes text on without the line breaks before it, and holds the white space at its end back. */
class TrimmedText {
  /** Whether no text has come yet. */
  atStart = true;
  readonly #trimStart: boolean;
  /** Joined only once other text follows: a model may write white space without end. */
  #held: string[] = [];

  /** `trimStart`: whether line breaks before the text are left out. */
  constructor(trimStart: boolean) {
    this.#trimStart = trimStart;
  }

  /** Returns the text that is certain to stand before other text. */
  push(text: string): string {
    const more = this.atStart && this.#trimStart ? text.replace(/^[\r\n]+/, '') : text;
    if (more === '') return '';
    this.atStart = false;
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
