/**
 * Reads tool calls written as JSON, `{"name": …, "arguments": …}`, while they arrive. If the name comes first, as
 * models write it, the arguments are passed on at once. Other forms, such as a list of calls, are read at the end.
 */
import type { AnswerPart } from './answer-parts.js';

/** What stands before the arguments; the first group is the name as JSON. */
const HEAD = /^\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)/;

/** Longer heads are not looked for, since each piece of text looks from the start. Their calls are read at the end. */
const LONGEST_HEAD = 4096;

export class ToolCallReader {
  readonly #call: number;
  #text = '';
  /** Set once the arguments have begun; undefined before. */
  #scan: ObjectScan | undefined;

  /** `call` is the number of the first call. */
  constructor(call: number) {
    this.#call = call;
  }

  push(text: string): AnswerPart[] {
    this.#text += text;
    if (this.#scan !== undefined) return this.#more(text);
    const looksFor = this.#text.length - text.length <= LONGEST_HEAD;
    const head = looksFor ? HEAD.exec(this.#text.slice(0, LONGEST_HEAD + 1)) : null;
    const name = head === null ? undefined : parsed(head[1]!);
    if (head === null || typeof name !== 'string') return [];
    this.#scan = new ObjectScan();
    return [{ kind: 'call', call: this.#call, name }, ...this.#more(this.#text.slice(head[0].length))];
  }

  /** Returns the calls that are not passed on yet, or undefined if the text is no call. */
  finish(): AnswerPart[] | undefined {
    if (this.#scan !== undefined) return [];
    const value = parsed(this.#text);
    const calls = (Array.isArray(value) ? value : [value]).map(callOf);
    if (calls.length === 0 || calls.includes(undefined)) return undefined;
    return calls.flatMap((found, at): AnswerPart[] => {
      const call = this.#call + at;
      return [
        { kind: 'call', call, name: found!.name },
        { kind: 'arguments', call, text: found!.arguments },
      ];
    });
  }

  /** All text so far. */
  get text(): string {
    return this.#text;
  }

  #more(text: string): AnswerPart[] {
    const own = this.#scan!.push(text);
    return own === '' ? [] : [{ kind: 'arguments', call: this.#call, text: own }];
  }
}

/** Finds the end of a JSON object. */
class ObjectScan {
  #depth = 0;
  #inString = false;
  #escaped = false;
  #ended = false;

  /** Returns the part of the text that belongs to the object. */
  push(text: string): string {
    if (this.#ended) return '';
    for (let at = 0; at < text.length; at += 1) {
      const character = text[at]!;
      if (this.#escaped) this.#escaped = false;
      else if (this.#inString) {
        if (character === '\\') this.#escaped = true;
        else if (character === '"') this.#inString = false;
      } else if (character === '"') this.#inString = true;
      else if (character === '{' || character === '[') this.#depth += 1;
      else if (character === '}' || character === ']') {
        this.#depth -= 1;
        if (this.#depth > 0) continue;
        this.#ended = true;
        return text.slice(0, at + 1);
      }
    }
    return text;
  }
}

function callOf(value: unknown): { name: string; arguments: string } | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { name, arguments: given, parameters } = value as Record<string, unknown>;
  if (typeof name !== 'string') return undefined;
  const own = given ?? parameters ?? {};
  return { name, arguments: typeof own === 'string' ? own : JSON.stringify(own) };
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}
