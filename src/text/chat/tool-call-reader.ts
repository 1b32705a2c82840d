/**
 * Reads a tool call while it arrives, in the forms of a model. Arguments are passed on as soon as the name is known. A
 * list of calls, and an object whose name is not its first field, are read at their end.
 */
import { escapePattern } from '../escape-pattern.js';
import { REQUEST_BOUNDS } from '../json-shape.js';
import type { ArgumentTypes } from './answer-format.js';
import type { AnswerPart } from './answer-parts.js';
import { BareArguments } from './bare-arguments.js';
import {
  type ArgumentsReader,
  argumentsJson,
  JsonArguments,
  JsonScan,
  LONGEST_MARK,
  PairArguments,
  parsed,
  withoutPart,
} from './call-arguments.js';
import { alike, beginsOf, type CallForm, type CallFormName } from './call-forms.js';

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
/** Behind the arguments of a call: the next call that is JSON, or what may be its beginning. */
const NEXT = /^\s*\}?[\s,;]*(?:(?=\{\s*"(?:name|arguments|parameters)")()|(?:\{\s*(?:"[a-z]*)?)?$)/;
const NAME = '[^\\s<>[\\]{}"]+';

/** The heads of the form, but of a call that is JSON: with and without a mark that models leave out. */
function headsOf(form: CallForm): Head[] {
  if (form.json) return [];
  const { section, begin, beforeName, id, afterName, pairs, afterArguments, end } = form;
  const marked = id === undefined ? [] : [...atoms(id), '\\w+'];
  const after = [...marked, ...atoms(afterName)];
  const last = afterArguments.trim() + end;
  const next = pairs === undefined ? ['{', '[', '"', ...(last === '' ? [] : [last])] : [pairs.keyBegin, last];
  // Where a mark follows the name, nothing needs to follow the mark.
  const follows = pairs !== undefined && afterName.trim() !== '' ? [''] : next;
  // Models leave out a prefix of names.
  const befores = beforeName.endsWith('.') ? [beforeName, ''] : [beforeName];
  const begins = (section === undefined ? [''] : ['', begin]).flatMap((own) =>
    befores.map((each) => [...atoms(own), ...atoms(each)]),
  );
  return begins.flatMap((own) =>
    follows.map((each) => {
      const before = sparse(own);
      const behind = sparse([...after, ...atoms(each)]);
      const taken = sparse(after);
      const next = behind.slice(taken.length).join('');
      const whole = `^${before.join('')}(${NAME})${taken.join('')}(?=${next})`;
      const begun = [...before, NAME, ...behind].reduceRight((rest, atom) => `(?:${atom}${rest})?`, '');
      return { form, whole: new RegExp(whole), begun: new RegExp(`^${begun}$`) };
    }),
  );
}

const SPACE = '\\s*';

/** Patterns of the characters. White space is free, and so are numbers. */
function atoms(text: string): string[] {
  const atom = (each: string) =>
    each.trim() === '' ? SPACE : /\d/.test(each) ? '\\d+' : escapePattern(each);
  return [SPACE, ...Array.from(text.trim(), atom)];
}

/** Without two patterns of white space in a row, which would try all ways to share it. */
function sparse(all: readonly string[]): string[] {
  return all.filter((atom, at) => atom !== SPACE || all[at - 1] !== SPACE);
}

/** What reads the calls of an answer. */
export interface CallReading {
  forms: readonly [CallForm, ...CallForm[]];
  heads: readonly Head[];
  /** What ends a call, or begins the next one. */
  ends: RegExp;
  types: ArgumentTypes | undefined;
}

export function callReading(name: CallFormName, types: ArgumentTypes | undefined): CallReading {
  const forms = alike(name);
  const [{ end }] = forms;
  const ends = new RegExp([end, ...beginsOf(forms[0])].map(escapePattern).join('|'));
  return { forms, heads: forms.flatMap(headsOf), ends, types };
}

export class ToolCallReader {
  /** Failed: the text is no call. */
  state: 'head' | 'arguments' | 'tail' | 'ended' | 'failed' = 'head';
  readonly #reading: CallReading;
  /** The number of the next call. */
  #call: number;
  #buffer = '';
  /** A call, or a list of calls, that is JSON, and what finds its end. */
  #json: string[] = [];
  #length = 0;
  #scan = new JsonScan();
  #arguments: ArgumentsReader | undefined;

  /** `call` is the number of the first call. */
  constructor(reading: CallReading, call: number) {
    this.#reading = reading;
    this.#call = call;
  }

  /** The text behind the call when it has ended, or all text if it is no call. */
  get rest(): string {
    return this.#json.join('') + this.#buffer;
  }

  /** Returns what became certain with this text. */
  push(text: string): AnswerPart[] {
    if (this.state === 'arguments') return this.#readArguments(text);
    if (this.#json.length > 0) return this.#readJson(text);
    this.#buffer += text;
    if (this.state === 'tail') this.#readTail();
    return this.#readBegun();
  }

  #readBegun(): AnswerPart[] {
    if (this.state !== 'head') return [];
    if (!/^\s*[{[]/.test(this.#buffer)) return this.#readHead();
    const begun = this.#buffer;
    this.#buffer = '';
    return this.#readJson(begun);
  }

  /** Returns the rest, if no text follows. A call without all of its head is none: it was cut off. */
  finish(): AnswerPart[] {
    const { end } = this.#reading.forms[0];
    const { state } = this;
    this.state = state === 'head' && end !== '' && this.rest.includes(end) ? 'failed' : 'ended';
    if (state === 'arguments') return this.#more(this.#arguments!.finish());
    return this.state === 'ended' && this.#json.length > 0 ? this.#partsOf(wholeCalls(this.rest)) : [];
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
    const { pairs, quote, end } = form;
    const { types } = this.#reading;
    const own = types !== undefined && Object.hasOwn(types, name) ? types[name] : undefined;
    if (pairs !== undefined) this.#arguments = new PairArguments({ ...form, pairs }, own);
    else this.#arguments = quote === undefined ? new JsonArguments(end) : new BareArguments(quote, end);
    this.state = 'arguments';
    const text = this.rest.slice(length);
    this.#json = [];
    return [{ kind: 'call', call: this.#call, name }, ...this.#readArguments(text)];
  }

  #readArguments(text: string): AnswerPart[] {
    this.#buffer = '';
    const parts = this.#more(this.#arguments!.push(text));
    const { rest } = this.#arguments!;
    if (rest === undefined) return parts;
    this.#call += 1;
    return [...parts, ...this.#endArguments(rest)];
  }

  #more(text: string): AnswerPart[] {
    return text === '' ? [] : [{ kind: 'arguments', call: this.#call, text }];
  }

  #endArguments(rest: string): AnswerPart[] {
    this.#buffer = rest;
    this.state = 'tail';
    this.#readTail();
    return this.#readBegun();
  }

  /** Leaves out what stands before the end, or before the next call. One that follows the end ends this one, too. */
  #readTail(): void {
    const { ends, forms } = this.#reading;
    const next = forms.some(({ json }) => json) ? NEXT.exec(this.#buffer) : null;
    if (next?.[1] !== undefined) {
      this.#buffer = this.#buffer.slice(next[0].length);
      this.#scan = new JsonScan();
      this.#length = 0;
      this.state = 'head';
      return;
    }
    if (next !== null && this.#buffer.length < LONGEST_MARK) return;
    const mark = ends.exec(this.#buffer);
    if (mark === null) this.#buffer = this.#buffer.slice(-LONGEST_MARK);
    else {
      this.#buffer = this.#buffer.slice(mark.index + (mark[0] === forms[0].end ? mark[0].length : 0));
      this.state = 'ended';
    }
  }

  #readJson(text: string): AnswerPart[] {
    this.#json.push(text);
    this.#length += text.length;
    const form = this.#reading.forms.find(({ json }) => json);
    if (form === undefined) {
      this.state = 'failed';
      return [];
    }
    // Behind the arguments of a call without an end, the rest of its JSON would be taken for text.
    if (form.end !== '' && this.#length - text.length <= LONGEST_HEAD) {
      const head = JSON_HEAD.exec(this.rest.slice(0, LONGEST_HEAD + 1));
      const name = head === null ? undefined : parsed(head[1]!);
      if (head !== null && typeof name === 'string' && name !== '')
        return this.#begin(form, name, head[0].length);
    }
    const end = this.#scan.push(text);
    if (this.#scan.deepest > REQUEST_BOUNDS.depth) this.state = 'failed';
    if (end === undefined || this.state === 'failed') return [];
    const all = this.rest;
    const length = all.length - text.length + end;
    const value = parsed(all.slice(0, length));
    const values = Array.isArray(value) ? value : [value];
    const calls = values.map(callOf).filter((found) => found !== undefined);
    if (calls.length === 0 || calls.length < values.length) {
      this.state = 'failed';
      return [];
    }
    this.#json = [];
    return [...this.#partsOf(calls), ...this.#endArguments(all.slice(length))];
  }

  #partsOf(calls: readonly JsonCall[]): AnswerPart[] {
    return calls.flatMap(({ name, arguments: text }): AnswerPart[] => {
      const call = this.#call++;
      return [
        { kind: 'call', call, name },
        { kind: 'arguments', call, text },
      ];
    });
  }
}

interface JsonCall {
  name: string;
  arguments: string;
}

/** The whole calls of a list that was cut off. */
function wholeCalls(list: string): JsonCall[] {
  const calls: JsonCall[] = [];
  let rest = list.replace(/^\s*\[/, '');
  if (rest === list) return [];
  for (;;) {
    rest = rest.replace(/^[\s,]+/, '');
    const end = rest.startsWith('{') ? new JsonScan().push(rest) : undefined;
    const call = end === undefined ? undefined : callOf(parsed(rest.slice(0, end)));
    if (call === undefined) return calls;
    calls.push(call);
    rest = rest.slice(end);
  }
}

function callOf(value: unknown): JsonCall | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { name, arguments: given, parameters } = value as Record<string, unknown>;
  if (typeof name !== 'string' || name === '') return undefined;
  return { name, arguments: argumentsJson(given ?? parameters ?? {}) };
}
