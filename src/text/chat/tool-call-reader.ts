/**
 * Reads a tool call while it arrives, in the forms of a model. Arguments are passed on as soon as the name is known. A
 * list of calls, and an object whose name is not its first field, are read at their end.
 */
import type { ArgumentTypes } from './answer-format.js';
import type { AnswerPart } from './answer-parts.js';
import {
  type ArgumentsReader,
  argumentsJson,
  escaped,
  JsonArguments,
  JsonScan,
  PairArguments,
  parsed,
  withoutPart,
} from './call-arguments.js';
import { beginsOf, type CallForm } from './call-forms.js';

/** Longer heads are not looked for, since each piece of text looks from the start. */
const LONGEST_HEAD = 4096;

interface Head {
  form: CallForm;
  /** What stands before the arguments; the first group is the name. */
  whole: RegExp;
  /** Any beginning of it. */
  begun: RegExp;
}

const JSON_HEAD = /^\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)/;
const NAME = '[^\\s<>[\\]{}"]+';

/** The heads of the form, but of a call that is JSON: with and without a mark that models leave out. */
export function headsOf(form: CallForm): Head[] {
  if (form.json) return [];
  const { section, begin, beforeName, id, afterName, pairs, afterArguments, end } = form;
  const marked = id === undefined ? [] : [...atoms(id), '\\w+'];
  const after = [...marked, ...atoms(afterName)];
  const next = pairs === undefined ? ['{', '[', '"'] : [pairs.keyBegin, afterArguments.trim() + end];
  // Where a mark follows the name, nothing needs to follow the mark.
  const follows = pairs !== undefined && afterName.trim() !== '' ? [''] : next;
  return (section === undefined ? [''] : ['', begin]).flatMap((own) =>
    follows.map((each) => {
      const before = [...atoms(own), ...atoms(beforeName)];
      const whole = `^${before.join('')}(${NAME})${after.join('')}(?=${atoms(each).join('')})`;
      const all = [...before, NAME, ...after, ...atoms(each)];
      const begun = all.reduceRight((rest, atom) => `(?:${atom}${rest})?`, '');
      return { form, whole: new RegExp(whole), begun: new RegExp(`^${begun}$`) };
    }),
  );
}

/** Patterns of the characters. White space is free. */
function atoms(text: string): string[] {
  const characters = Array.from(text.trim(), (each) => (each.trim() === '' ? '\\s*' : escaped(each)));
  return ['\\s*', ...characters];
}

export interface CallReading {
  forms: readonly CallForm[];
  heads: readonly Head[];
  types: ArgumentTypes | undefined;
}

export class ToolCallReader {
  /** Failed: the text is no call. */
  state: 'head' | 'arguments' | 'tail' | 'ended' | 'failed' = 'head';
  readonly #reading: CallReading;
  /** The number of the next call. */
  #call: number;
  #buffer = '';
  /** Finds the end of a call, or of a list of calls, that is JSON. */
  #scan: JsonScan | undefined;
  #arguments: ArgumentsReader | undefined;

  /** `call` is the number of the first call. */
  constructor(reading: CallReading, call: number) {
    this.#reading = reading;
    this.#call = call;
  }

  /** The text behind the call when it has ended, or all text if it is no call. */
  get rest(): string {
    return this.#buffer;
  }

  /** Returns what became certain with this text. */
  push(text: string): AnswerPart[] {
    this.#buffer += text;
    if (this.state === 'tail') this.#readTail();
    if (this.state === 'arguments') return this.#readArguments(text);
    if (this.state !== 'head') return [];
    return /^\s*[{[]/.test(this.#buffer) ? this.#readJson(text) : this.#readHead();
  }

  /** Returns the rest, if no text follows. A call without all of its head is none: it was cut off. */
  finish(): AnswerPart[] {
    const { state } = this;
    this.state = 'ended';
    this.#buffer = '';
    return state === 'arguments' ? this.#more(this.#arguments!.finish()) : [];
  }

  #readHead(): AnswerPart[] {
    const start = this.#buffer.slice(0, LONGEST_HEAD);
    for (const { form, whole } of this.#reading.heads) {
      const head = whole.exec(start);
      if (head !== null) return this.#begin(form, head[1]!, head[0].length);
    }
    const whole = withoutPart(start);
    const begun = this.#reading.heads.some((head) => head.begun.test(whole));
    if (this.#buffer.length >= LONGEST_HEAD || !(begun || start.trim() === '')) this.state = 'failed';
    return [];
  }

  #begin(form: CallForm, name: string, length: number): AnswerPart[] {
    const { pairs, end } = form;
    const { types } = this.#reading;
    const own = types !== undefined && Object.hasOwn(types, name) ? types[name] : undefined;
    this.#arguments =
      pairs === undefined ? new JsonArguments(end) : new PairArguments({ ...form, pairs }, own);
    this.state = 'arguments';
    const text = this.#buffer.slice(length);
    return [{ kind: 'call', call: this.#call, name }, ...this.#readArguments(text)];
  }

  #readArguments(text: string): AnswerPart[] {
    this.#buffer = '';
    const parts = this.#more(this.#arguments!.push(text));
    const { rest } = this.#arguments!;
    if (rest === undefined) return parts;
    this.#call += 1;
    this.#endArguments(rest);
    return parts;
  }

  #more(text: string): AnswerPart[] {
    return text === '' ? [] : [{ kind: 'arguments', call: this.#call, text }];
  }

  #endArguments(rest: string): void {
    this.#buffer = rest;
    this.state = 'tail';
    this.#readTail();
  }

  /** Leaves out what stands before the end. A call that follows ends this one, too. */
  #readTail(): void {
    const [form] = this.#reading.forms as [CallForm];
    const marks = [form.end, ...beginsOf(form)];
    const mark = new RegExp(marks.map(escaped).join('|')).exec(this.#buffer);
    if (mark === null) this.#buffer = this.#buffer.slice(-Math.max(...marks.map(({ length }) => length)));
    else {
      this.#buffer = this.#buffer.slice(mark.index + (mark[0] === form.end ? mark[0].length : 0));
      this.state = 'ended';
    }
  }

  #readJson(text: string): AnswerPart[] {
    const form = this.#reading.forms.find(({ json }) => json);
    if (form === undefined) {
      this.state = 'failed';
      return [];
    }
    // Behind the arguments of a call without an end, the rest of its JSON would be taken for text.
    const looks = form.end !== '' && this.#buffer.length - text.length <= LONGEST_HEAD;
    const head = looks ? JSON_HEAD.exec(this.#buffer.slice(0, LONGEST_HEAD + 1)) : null;
    const name = head === null ? undefined : parsed(head[1]!);
    if (head !== null && typeof name === 'string') return this.#begin(form, name, head[0].length);
    const end = this.#endOfJson(text);
    if (end === undefined) return [];
    const value = parsed(this.#buffer.slice(0, end));
    const calls = (Array.isArray(value) ? value : [value]).map(callOf);
    if (calls.length === 0 || calls.includes(undefined)) {
      this.state = 'failed';
      return [];
    }
    const parts = calls.flatMap((found): AnswerPart[] => {
      const call = this.#call++;
      return [
        { kind: 'call', call, name: found!.name },
        { kind: 'arguments', call, text: found!.arguments },
      ];
    });
    this.#endArguments(this.#buffer.slice(end));
    return parts;
  }

  #endOfJson(text: string): number | undefined {
    const own = this.#scan === undefined ? this.#buffer : text;
    this.#scan ??= new JsonScan();
    const end = this.#scan.push(own);
    return end === undefined ? undefined : this.#buffer.length - own.length + end;
  }
}

function callOf(value: unknown): { name: string; arguments: string } | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { name, arguments: given, parameters } = value as Record<string, unknown>;
  return typeof name === 'string' ? { name, arguments: argumentsJson(given ?? parameters ?? {}) } : undefined;
}
