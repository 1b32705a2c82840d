/** Turns the chunks of a streamed answer into deltas, and into the choices of a result. */
import { SidaError } from '../errors.js';
import type { CompletionDelta } from '../protocol/engine-messages.js';
import type { StoredAnswer, StoredChoice } from '../tasks/shared/stored.js';
import { answerParser } from '../text/chat/answer-parser.js';
import { type AnswerParser, type AnswerPart, appendParts } from '../text/chat/answer-parts.js';
import type { UpstreamRequest } from './upstream-request.js';

/** Fields of a chunk that are used. Other servers send more, and null for what they leave out. */
interface UpstreamChunk {
  choices?: ChunkChoice[] | null;
  usage?: { prompt_tokens?: number; completion_tokens?: number } | null;
  error?: { message?: string } | string | null;
}

interface ChunkChoice {
  index?: number;
  text?: string | null;
  delta?: {
    content?: string | null;
    reasoning_content?: string | null;
    /** vLLM's newer name. */
    reasoning?: string | null;
    tool_calls?:
      | {
          index?: number;
          id?: string | null;
          function?: { name?: string | null; arguments?: string | null } | null;
        }[]
      | null;
  } | null;
  finish_reason?: string | null;
}

export class UpstreamChoices {
  readonly #choices: UpstreamChoice[];
  readonly #each: number;
  #counts = 0;
  #promptTokens = 0;
  completionTokens = 0;

  /** `choices` of each prompt. `prefixes` has, of each prompt, the text that its choices begin with. */
  constructor({ choices, prefixes, answer }: Pick<UpstreamRequest, 'choices' | 'prefixes' | 'answer'>) {
    this.#each = choices;
    const all = prefixes.flatMap((prefix) => Array.from({ length: choices }, () => prefix));
    this.#choices = all.map((prefix, index) => new UpstreamChoice(index, prefix, answer));
  }

  get promptTokens(): number {
    // A server that counts each choice by itself counts a prompt once for each of its choices.
    return this.#promptTokens / (this.#counts > 1 ? this.#each : 1);
  }

  /** Throws `internal` when the server reports an error in its stream, or sends what is no chunk. */
  take(data: string): CompletionDelta[] {
    try {
      return this.#take(JSON.parse(data) as UpstreamChunk | null);
    } catch (error) {
      if (error instanceof SidaError) throw error;
      const message = `The upstream engine sent a chunk that cannot be read: ${data.slice(0, 200)}`;
      throw new SidaError({ code: 'internal', message }, { cause: error });
    }
  }

  #take(chunk: UpstreamChunk | null): CompletionDelta[] {
    // llama.cpp may send an empty chunk.
    const { usage, error, ...rest } = chunk ?? {};
    if (error != null) {
      const said = typeof error === 'string' ? error : (error.message ?? 'unknown');
      throw new SidaError({ code: 'internal', message: `The upstream engine failed: ${said}` });
    }
    const choices = rest.choices ?? [];
    // Most servers count all choices at the end, llama.cpp each when it ends.
    if (usage && choices.every(({ finish_reason: reason }) => reason != null)) {
      // A server may count the only choice when it ends, and again at the end of the stream.
      if (this.#choices.length === 1) this.#counts = this.#promptTokens = this.completionTokens = 0;
      this.#counts += 1;
      this.#promptTokens += usage.prompt_tokens ?? 0;
      this.completionTokens += usage.completion_tokens ?? 0;
    }
    return choices.flatMap((each) => this.#choices[each.index ?? 0]?.take(each) ?? []);
  }

  /** Throws engine_crashed when the stream ended before all choices had. */
  finish(): (StoredChoice | StoredAnswer)[] {
    return this.#choices.map((each) => each.choice());
  }
}

/** One choice: the text of a completion, or the parts of a conversation's answer. */
class UpstreamChoice {
  readonly #index: number;
  /** Sent with the first text. */
  #prefix: string;
  #text = '';
  readonly #parts: AnswerPart[] | undefined;
  /** Not every server splits reasoning and calls from the content. */
  #content: AnswerParser | undefined;
  readonly #answer: UpstreamRequest['answer'];
  #calls = 0;
  /** The calls by the other server's numbers, which it may repeat with another id. */
  readonly #open = new Map<number, { id: string | null | undefined; call: number }>();
  #finishReason: StoredChoice['finishReason'] | undefined;

  constructor(index: number, prefix: string, answer: UpstreamRequest['answer']) {
    this.#index = index;
    this.#prefix = prefix;
    this.#answer = answer;
    if (answer !== undefined) {
      this.#parts = [];
      this.#content = newParser(answer);
    }
  }

  take({ text: piece, delta, finish_reason: reason }: ChunkChoice): CompletionDelta[] {
    const parts = this.#answer && this.#partsOf(delta ?? {}, this.#answer);
    if (parts !== undefined && reason != null) this.#endContent(parts);
    if (reason != null) this.#finishReason = reason === 'length' ? 'length' : 'stop';
    if (!piece && !parts?.length && reason == null) return [];
    const text = this.#prefix + (piece ?? '');
    this.#prefix = '';
    this.#text += text;
    if (parts !== undefined) appendParts(this.#parts!, parts);
    const finishReason = reason == null ? null : this.#finishReason!;
    const [index, tokenIds, logprobs] = [this.#index, [], null];
    return [{ index, text, ...(parts && { parts }), tokenIds, logprobs, finishReason }];
  }

  choice(): StoredChoice | StoredAnswer {
    if (this.#finishReason === undefined) {
      throw new SidaError({ code: 'engine_crashed', message: 'The upstream engine ended its answer early' });
    }
    const [index, parts, finishReason] = [this.#index, this.#parts, this.#finishReason];
    const said = parts === undefined ? { text: this.#text } : { parts };
    return { index, ...said, tokenIds: [], finishReason, logprobs: null };
  }

  #partsOf(
    delta: NonNullable<ChunkChoice['delta']>,
    answer: NonNullable<UpstreamRequest['answer']>,
  ): AnswerPart[] {
    const parts: AnswerPart[] = [];
    const reasoning = delta.reasoning_content ?? delta.reasoning ?? '';
    if (reasoning !== '') parts.push({ kind: 'reasoning', text: reasoning });
    if (delta.content) this.#addContent(this.#content!.push(delta.content), parts);
    for (const { index = 0, id, function: called } of delta.tool_calls ?? []) {
      const known = this.#open.get(index);
      if (called?.name != null && (known === undefined || (id && id !== known.id))) {
        this.#endContent(parts);
        this.#content = newParser(answer);
        this.#open.set(index, { id, call: this.#calls });
        parts.push({ kind: 'call', call: this.#calls++, name: called.name });
      }
      const text = called?.arguments;
      const call = this.#open.get(index)?.call;
      if (text && call !== undefined) parts.push({ kind: 'arguments', call, text });
    }
    return parts;
  }

  /** White space between parts is left out. */
  #endContent(parts: AnswerPart[]): void {
    const rest = this.#content!.finish();
    this.#addContent(
      this.#parts!.length + parts.length > 0 ? rest.filter((part) => !isBlank(part)) : rest,
      parts,
    );
  }

  /** Numbers the calls that are found in the content after those that the other server has split off. */
  #addContent(found: readonly AnswerPart[], parts: AnswerPart[]): void {
    for (const part of found) {
      if (part.kind === 'call') parts.push({ ...part, call: this.#calls++ });
      else if (part.kind === 'arguments') parts.push({ ...part, call: this.#calls - 1 });
      else this.#addText(part, parts);
    }
  }

  /** Line breaks between reasoning and content are left out. */
  #addText(part: AnswerPart, parts: AnswerPart[]): void {
    const last = parts.at(-1) ?? this.#parts!.at(-1);
    const begins = last !== undefined && last.kind !== part.kind && 'text' in part;
    const text = begins ? part.text.replace(/^\n+/, '') : undefined;
    if (text !== '') parts.push(text === undefined ? part : ({ ...part, text } as AnswerPart));
  }
}

function newParser({ answer, tools }: NonNullable<UpstreamRequest['answer']>): AnswerParser {
  return answerParser(answer, tools);
}

function isBlank(part: AnswerPart): boolean {
  return part.kind === 'content' && part.text.trim() === '';
}
