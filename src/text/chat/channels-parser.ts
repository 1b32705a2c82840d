/**
 * Reads answers in the harmony format: messages `<|start|>header<|message|>text<|end|>`, where the header names a role,
 * a channel and, of tool calls, a recipient. `analysis` is reasoning; other channels are content. Models write headers
 * that are malformed, so whatever can be understood is.
 */
import { CHANNEL_TOKENS, CONTROL } from './answer-format.js';
import type { AnswerParser, AnswerPart } from './answer-parts.js';
import { argumentsJson, parsed } from './call-arguments.js';

const { start, channel, constrain, message } = CHANNEL_TOKENS;
/** By length, so that none hides another. */
const TOKENS = Object.values(CHANNEL_TOKENS).sort((a, b) => b.length - a.length);
const LONGEST = Math.max(...TOKENS.map((token) => token.length));
/** Between two messages of the same kind. */
const GAP = '\n\n';

type Target =
  | { kind: 'reasoning' | 'content' }
  /** `held` has arguments that are no object, which are converted at their end. */
  | { kind: 'call'; call: number; held?: string[] };

export class ChannelsParser implements AnswerParser {
  readonly #tools: boolean;
  readonly #boundCalls: boolean;
  #buffer = '';
  #header = '';
  /** Whether the header has the token that begins one. */
  #started = false;
  /** The message whose text arrives; undefined in a header. */
  #target: Target | undefined;
  #calls = 0;
  /** Kinds of text of which there is some. */
  readonly #begun = new Set<string>();

  constructor(tools: boolean, boundCalls = false) {
    this.#tools = tools;
    this.#boundCalls = boundCalls;
  }

  push(text: string): AnswerPart[] {
    const parts: AnswerPart[] = [];
    this.#buffer += text;
    for (;;) {
      const at = this.#buffer.indexOf(CONTROL);
      if (at < 0) break;
      this.#text(this.#buffer.slice(0, at), parts);
      this.#buffer = this.#buffer.slice(at);
      const token = TOKENS.find((each) => this.#buffer.startsWith(each, 1));
      if (token === undefined && this.#buffer.length <= LONGEST) return parts;
      this.#buffer = this.#buffer.slice(1 + (token?.length ?? 0));
      if (token !== undefined) this.#token(token, parts);
    }
    this.#text(this.#buffer, parts);
    this.#buffer = '';
    return parts;
  }

  finish(): AnswerPart[] {
    const parts: AnswerPart[] = [];
    if (this.#target === undefined && !this.#boundCalls) this.#plain(parts);
    if (this.#target?.kind === 'call' && this.#target.held !== undefined) this.#end(parts);
    return parts;
  }

  #token(token: string, parts: AnswerPart[]): void {
    const inHeader = this.#target === undefined;
    if (token === message) {
      // A second one in a message is ignored.
      if (inHeader) this.#open(parts);
    } else if (inHeader && (token === channel || token === constrain)) this.#header += CONTROL + token;
    else if (token !== constrain) {
      // The message before may have no end.
      if (inHeader) this.#plain(parts);
      else this.#end(parts);
      this.#header = token === channel ? CONTROL + channel : '';
      this.#started = token === start;
    }
  }

  #text(text: string, parts: AnswerPart[]): void {
    if (text === '') return;
    const target = this.#target;
    if (target === undefined) this.#header += text;
    else if (target.kind !== 'call') {
      parts.push({ kind: target.kind, text });
      this.#begun.add(target.kind);
    } else {
      if (target.held?.length === 0 && /^\s*\{/.test(text)) delete target.held;
      if (target.held === undefined) parts.push({ kind: 'arguments', call: target.call, text });
      else if (target.held.length > 0 || text.trim() !== '') target.held.push(text);
    }
  }

  #open(parts: AnswerPart[]): void {
    const { name, recipient } = headerOf(this.#header);
    this.#header = '';
    if (recipient !== undefined && this.#tools) {
      parts.push({ kind: 'call', call: this.#calls, name: recipient });
      this.#target = { kind: 'call', call: this.#calls++, held: [] };
      return;
    }
    const kind = name.startsWith('analysis') ? 'reasoning' : 'content';
    this.#target = { kind };
    if (this.#begun.has(kind)) parts.push({ kind, text: GAP });
  }

  /** Ends a message. */
  #end(parts: AnswerPart[]): void {
    const target = this.#target;
    this.#target = undefined;
    if (target?.kind !== 'call' || target.held === undefined) return;
    const held = target.held.join('');
    const text = held === '' ? '{}' : argumentsJson(parsed(held) ?? held);
    parts.push({ kind: 'arguments', call: target.call, text });
  }

  /** A header without a message is content, but for what belongs to a header. */
  #plain(parts: AnswerPart[]): void {
    const own = this.#started ? this.#header.replace(/^\s*assistant/, '') : this.#header;
    this.#header = '';
    if (CALLS.test(own)) return;
    // The name of a channel may be cut off.
    const text = own.replace(/\ufdd0(<\|\w+\|>)\s*(\w*)/g, (_, token, word) =>
      token === constrain || NAMES.some((name) => name.startsWith(word.toLowerCase())) ? '' : word,
    );
    if (text.trim() === '') return;
    if (this.#begun.has('content')) parts.push({ kind: 'content', text: GAP });
    parts.push({ kind: 'content', text });
    this.#begun.add('content');
  }
}

/** The beginning of a header that names a tool. */
const CALLS = /^\s*(?:\ufdd0<\|channel\|>)?\s*(?:commentary|analysis)?\s*to\s*=/;
const NAMES = ['analysis', 'commentary', 'final'];

/** Recipients that are no tools. */
const PEOPLE = new Set(['assistant', 'user', 'all', 'system', 'developer']);

/** `name` is that of the last channel, in lower case: a model that corrects itself writes another one. */
function headerOf(header: string): { name: string; recipient: string | undefined } {
  const channels = [...header.matchAll(/\ufdd0<\|channel\|>\s*(\w+)/g)];
  const to = /to\s*=\s*(?:functions?\.)?([\w.:-]+)/.exec(header)?.[1];
  return {
    name: channels.at(-1)?.[1]?.toLowerCase() ?? '',
    recipient: to === undefined || PEOPLE.has(to) ? undefined : to,
  };
}
