/**
 * Reads answers in the harmony format: messages `<|start|>header<|message|>text<|end|>`, where the header names a role,
 * a channel and, of tool calls, a recipient. `analysis` is reasoning; other channels are content. Models write headers
 * that are malformed, so whatever can be understood is.
 */
import { CHANNEL_TOKENS, CONTROL } from './answer-format.js';
import type { AnswerParser, AnswerPart } from './answer-parts.js';

const { start, channel, constrain, message, end, call, return: returned } = CHANNEL_TOKENS;
/** By length, so that none hides another. */
const TOKENS = Object.values(CHANNEL_TOKENS).sort((a, b) => b.length - a.length);
const LONGEST = Math.max(...TOKENS.map((token) => token.length));
/** Between two messages of the same kind. */
const GAP = '\n\n';

type Target = { kind: 'reasoning' | 'content' } | { kind: 'call'; call: number };

export class ChannelsParser implements AnswerParser {
  readonly #tools: boolean;
  #buffer = '';
  #header = '';
  /** The message whose text arrives; undefined in a header. */
  #target: Target | undefined;
  #messages = 0;
  #calls = 0;
  /** Kinds of text of which there is some. */
  readonly #begun = new Set<string>();

  constructor(tools: boolean) {
    this.#tools = tools;
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
    // An answer without any message is content.
    const text =
      this.#messages > 0 ? '' : this.#header.replaceAll(CONTROL, '').replace(/^\s*assistant\b/, '');
    const written = text.replace(/<\|\w+\|>\s*(analysis|commentary|final)?/g, '');
    return written.trim() === '' ? [] : [{ kind: 'content', text: written }];
  }

  #token(token: string, parts: AnswerPart[]): void {
    if (token === message) {
      // A second one in a message is ignored.
      if (this.#target === undefined) this.#open(parts);
    } else if (token === channel && this.#target === undefined) {
      this.#header += CONTROL + channel;
    } else if (token === channel || token === start) {
      // The message before has no end.
      this.#target = undefined;
      this.#header = token === channel ? CONTROL + channel : '';
    } else if (token === end || token === call || token === returned) {
      this.#target = undefined;
      if (this.#messages > 0) this.#header = '';
    } else if (token === constrain && this.#target === undefined) {
      this.#header += CONTROL + constrain;
    }
  }

  #text(text: string, parts: AnswerPart[]): void {
    if (text === '') return;
    const target = this.#target;
    if (target === undefined) this.#header += text;
    else if (target.kind === 'call') parts.push({ kind: 'arguments', call: target.call, text });
    else {
      parts.push({ kind: target.kind, text });
      this.#begun.add(target.kind);
    }
  }

  #open(parts: AnswerPart[]): void {
    const { name, recipient } = headerOf(this.#header);
    this.#header = '';
    this.#messages += 1;
    if (recipient !== undefined && this.#tools) {
      parts.push({ kind: 'call', call: this.#calls, name: recipient });
      this.#target = { kind: 'call', call: this.#calls++ };
      return;
    }
    const kind = name.startsWith('analysis') ? 'reasoning' : 'content';
    this.#target = { kind };
    if (this.#begun.has(kind)) parts.push({ kind, text: GAP });
  }
}

/** Recipients that are no tools. */
const PEOPLE = new Set(['assistant', 'user', 'all', 'system', 'developer']);

/** `name` is the channel's, in lower case. */
function headerOf(header: string): { name: string; recipient: string | undefined } {
  const name = /\ufdd0<\|channel\|>\s*(\w+)/.exec(header)?.[1]?.toLowerCase() ?? '';
  const to = /to\s*=\s*(?:functions?\.)?([\w.:-]+)/.exec(header)?.[1];
  return { name, recipient: to === undefined || PEOPLE.has(to) ? undefined : to };
}
