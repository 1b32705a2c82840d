/** Turns the chunks of a streamed answer into deltas, and into the choices of a result. */
import { SidaError } from '../errors.js';
import type { CompletionDelta } from '../protocol/engine-messages.js';
import { REASONING_TAGS } from '../text/chat/answer-format.js';
import { TOOL_CALL_TAGS } from '../text/chat/call-forms.js';
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
      | { index?: number; function?: { name?: string | null; arguments?: string | null } | null }[]
      | null;
  } | null;
  finish_reason?: string | null;
}

interface Choice {
  index: number;
  text: string;
  tokenIds: number[];
  finishReason: 'stop' | 'length';
  logprobs: null;
}

export class UpstreamChoices {
  readonly #texts: ChoiceText[];
  readonly #each: number;
  #counts = 0;
  #promptTokens = 0;
  completionTokens = 0;

  /** `choices` of each prompt. `prefixes` has, of each prompt, the text that its choices begin with. */
  constructor({ choices, prefixes }: Pick<UpstreamRequest, 'choices' | 'prefixes'>) {
    this.#each = choices;
    const all = prefixes.flatMap((prefix) => Array.from({ length: choices }, () => prefix));
    this.#texts = all.map((prefix, index) => new ChoiceText(index, prefix));
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
      if (this.#texts.length === 1) this.#counts = this.#promptTokens = this.completionTokens = 0;
      this.#counts += 1;
      this.#promptTokens += usage.prompt_tokens ?? 0;
      this.completionTokens += usage.completion_tokens ?? 0;
    }
    return choices.flatMap((each) => this.#texts[each.index ?? 0]?.take(each) ?? []);
  }

  /** Throws engine_crashed when the stream ended before all choices had. */
  finish(): Choice[] {
    return this.#texts.map((text) => text.choice());
  }
}

/**
 * The text of a choice as a model writes it whose reasoning and calls stand in tags, so that servers read answers of
 * all engines in one way.
 */
class ChoiceText {
  readonly #index: number;
  #prefix: string;
  #text = '';
  #finishReason: Choice['finishReason'] | undefined;
  #open: 'reasoning' | 'call' | undefined;
  #call: number | undefined;

  constructor(index: number, prefix: string) {
    this.#index = index;
    this.#prefix = prefix;
  }

  take({ text, finish_reason: reason, ...rest }: ChunkChoice): CompletionDelta[] {
    let piece = text ?? '';
    const delta = rest.delta ?? {};
    const reasoning = delta.reasoning_content ?? delta.reasoning ?? '';
    if (reasoning !== '') piece += this.#enter('reasoning') + reasoning;
    if (delta.content) piece += this.#enter(undefined) + delta.content;
    for (const { index = 0, function: called } of delta.tool_calls ?? []) {
      if (index !== this.#call && called?.name != null) {
        piece += this.#enter(undefined) + this.#enter('call');
        piece += `{"name": ${JSON.stringify(called.name)}, "arguments": `;
        this.#call = index;
      }
      piece += called?.arguments ?? '';
    }
    if (reason != null) {
      piece += this.#enter(undefined);
      this.#finishReason = reason === 'length' ? 'length' : 'stop';
    }
    if (piece === '' && reason == null) return [];
    piece = this.#prefix + piece;
    this.#prefix = '';
    this.#text += piece;
    const finishReason = reason == null ? null : this.#finishReason!;
    return [{ index: this.#index, text: piece, tokenIds: [], logprobs: null, finishReason }];
  }

  choice(): Choice {
    if (this.#finishReason === undefined) {
      throw new SidaError({ code: 'engine_crashed', message: 'The upstream engine ended its answer early' });
    }
    const [index, text, finishReason] = [this.#index, this.#text, this.#finishReason];
    return { index, text, tokenIds: [], finishReason, logprobs: null };
  }

  /** Returns the tags between the text so far and text of another part. */
  #enter(part: 'reasoning' | 'call' | undefined): string {
    if (part === this.#open) return '';
    const closed = { reasoning: REASONING_TAGS[1], call: `}${TOOL_CALL_TAGS[1]}` };
    const opened = { reasoning: REASONING_TAGS[0], call: TOOL_CALL_TAGS[0] };
    const before = this.#open === undefined ? '' : closed[this.#open];
    this.#open = part;
    return before + (part === undefined ? '' : opened[part]);
  }
}
