/** Answers with a model of a running server. */
import { Readable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { modelName } from '../../checkpoint/gguf/gguf-path.js';
import { UsageError } from '../../config/resolve.js';
import { SidaError } from '../../errors.js';
import type { ChatAnswer, ChatChunk } from '../../tasks/chat/schema.js';
import { listed } from '../../text/listed.js';
import { nearest } from '../../text/nearest.js';
import { baseOf, call, getJson, refusal } from '../server-calls.js';
import type { Settings } from './settings.js';
import { type Listener, type Said, type Talker, tell, type Usage, usageOf } from './talker.js';

interface ServedModel {
  id: string;
  /** These are of sida alone. */
  chat?: boolean;
  context_tokens?: number | null;
  sampling?: Settings | null;
}

/** An event of a stream: a chunk, or how the stream failed. */
type StreamEvent = Partial<ChatChunk> & { error?: { code?: string; message?: string } };

export class ServerTalker implements Talker {
  readonly #base: string;
  readonly #model: ServedModel;

  private constructor(base: string, model: ServedModel) {
    this.#base = base;
    this.#model = model;
  }

  /** `name` chooses among several models that chat, and may be the path of one. Rejects with UsageError, SidaError. */
  static async open(url: string, name: string | undefined): Promise<ServerTalker> {
    const base = baseOf(url);
    const { data } = await getJson<{ data: ServedModel[] }>(`${base}/v1/models`);
    return new ServerTalker(base, chosen(data, name, url));
  }

  get model(): string {
    return this.#model.id;
  }

  get contextTokens(): number | undefined {
    return this.#model.context_tokens ?? undefined;
  }

  get advice(): Settings | null | undefined {
    return this.#model.sampling;
  }

  async answer(messages: readonly Said[], settings: Settings, listener: Listener): Promise<Usage> {
    const body = { ...this.#body(messages, settings), stream: true, stream_options: { include_usage: true } };
    let usage: ChatChunk['usage'];
    try {
      const response = await call(this.#chat, body, listener.signal);
      const events = (Readable.toWeb(response) as ReadableStream<Uint8Array>)
        .pipeThrough(new TextDecoderStream())
        .pipeThrough(new EventSourceParserStream());
      for await (const { data } of events) {
        if (data === '[DONE]') break;
        const event = JSON.parse(data) as StreamEvent;
        if (event.error !== undefined) throw refusal(event.error, 500);
        if (event.choices !== undefined) tell({ choices: event.choices }, listener);
        usage = event.usage ?? usage;
      }
      if (usage == null) throw brokenOff();
    } catch (error) {
      if (listener.signal?.aborted)
        throw new SidaError({ code: 'cancelled', message: 'The answer was ended' });
      throw error instanceof SidaError ? error : brokenOff(error);
    }
    return usageOf(usage);
  }

  async whole(messages: readonly Said[], settings: Settings): Promise<ChatAnswer> {
    return JSON.parse(await textOf(await call(this.#chat, this.#body(messages, settings)))) as ChatAnswer;
  }

  async quote(messages: readonly Said[], settings: Settings): ReturnType<Talker['quote']> {
    const asked = { path: '/v1/chat/completions', body: this.#body(messages, settings) };
    return JSON.parse(await textOf(await call(`${this.#base}/v1/quote`, asked)));
  }

  async close(): Promise<void> {}

  get #chat(): string {
    return `${this.#base}/v1/chat/completions`;
  }

  #body(messages: readonly Said[], settings: Settings): object {
    return { model: this.model, messages, ...settings };
  }
}

function brokenOff(cause?: unknown): SidaError {
  return new SidaError({ code: 'io_error', message: 'The answer broke off' }, { cause });
}

function chosen(models: readonly ServedModel[], name: string | undefined, url: string): ServedModel {
  const chats = models.filter(({ chat }) => chat !== false);
  const names = chats.map(({ id }) => id);
  if (names.length === 0)
    throw new SidaError({ code: 'not_found', message: `No model of ${url} has a chat template` });
  if (name === undefined) {
    if (chats.length === 1) return chats[0]!;
    throw new UsageError(`${url} serves ${listed(names, 'and')}: name one of them`);
  }
  const found = chats.find(({ id }) => id === name) ?? chats.find(({ id }) => id === modelName(name));
  if (found !== undefined) return found;
  const meant = nearest(name, names);
  const hint = meant === undefined ? `it serves ${listed(names, 'and')}` : `did you mean ${meant}?`;
  throw new UsageError(`${url} serves no model ${JSON.stringify(name)} that chats; ${hint}`);
}
