/**
 * An engine that another program is: a server with OpenAI's API. A worker stands before it, so that queue, keys and
 * limits are those of sida. The other server batches, and places the model on its machines.
 */
import { request as http, type IncomingMessage } from 'node:http';
import { request as https } from 'node:https';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import type { EngineHandle, EngineState, RunOptions } from '../engine/engine-handle.js';
import { SidaError } from '../errors.js';
import type { ControlReply, JobRequest, JobResult, ModelInfo } from '../protocol/engine-messages.js';
import { cancelled } from '../queue/refusals.js';
import { UpstreamChoices } from './upstream-choices.js';
import { type ListedModel, upstreamModel } from './upstream-model.js';
import { type UpstreamRequest, upstreamRequest } from './upstream-request.js';

export interface UpstreamOptions {
  /** Address of the server, with or without `/v1`. */
  url: string;
  /** Name of the model at that server. */
  model: string;
  /** Name of the model here. */
  alias?: string | undefined;
  key?: string | undefined;
}

/** Milliseconds between looks for the server. */
const LOOK_MS = 1_000;
/** A server that does not answer a look within this time counts as gone. */
const SILENT_MS = 10_000;

export class UpstreamEngine implements EngineHandle {
  readonly computes = undefined;
  readonly counters = undefined;
  readonly tokenizer = undefined;
  readonly grammars = undefined;
  restarts = 0;
  readonly #base: string;
  readonly #options: UpstreamOptions;
  readonly #listeners = new Set<(state: EngineState) => void>();
  readonly #closed = new AbortController();
  #state: EngineState = { phase: 'starting', detail: 'looking for the upstream engine' };
  #model: ModelInfo | undefined;

  constructor(options: UpstreamOptions) {
    this.#options = options;
    this.#base = options.url.replace(/\/+$/, '').replace(/\/v1$/, '');
  }

  get state(): EngineState {
    return this.#state;
  }

  get model(): ModelInfo | undefined {
    return this.#model;
  }

  start(): void {
    void this.#follow();
  }

  onState(listener: (state: EngineState) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async run(_id: string, request: JobRequest, { signal, onDelta }: RunOptions): Promise<JobResult> {
    const asked = upstreamRequest(request, this.#options.model);
    const began = performance.now();
    try {
      const response = await this.#ask(asked, AbortSignal.any([signal, this.#closed.signal]));
      const choices = new UpstreamChoices(asked);
      const events = Readable.toWeb(response)
        .pipeThrough(new TextDecoderStream())
        .pipeThrough(new EventSourceParserStream());
      for await (const { data } of events) {
        if (data === '[DONE]') break;
        for (const each of choices.take(data)) onDelta?.(each);
      }
      const result = {
        kind: request.kind,
        choices: choices.finish(),
        promptTokens: choices.promptTokens,
        completionTokens: choices.completionTokens,
        experts: {} as JobResult['experts'],
        timing: { tokenizeMs: 0, queueMs: 0, inferenceMs: performance.now() - began },
      };
      return result;
    } catch (error) {
      if (signal.aborted) throw cancelled();
      if (error instanceof SidaError) throw error;
      this.#lose(error as Error);
      const message = 'The connection to the upstream engine broke';
      throw new SidaError({ code: 'engine_crashed', message }, { cause: error });
    }
  }

  control(): Promise<ControlReply> {
    const message =
      'The model runs in an engine of another program (--upstream), which has no budget to change';
    return Promise.reject(new SidaError({ code: 'cannot_run', message }));
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#setState({ phase: 'closed', detail: 'closed' });
  }

  /** Sends a request, again after a while when the server has no room for it. Resolves with a stream of events. */
  async #ask({ path, body }: UpstreamRequest, signal: AbortSignal): Promise<IncomingMessage> {
    for (;;) {
      const response = await this.#post(path, JSON.stringify(body), signal);
      const { statusCode: status = 0, headers } = response;
      if (status === 200) {
        const { 'content-type': type = 'none' } = headers;
        if (type.startsWith('text/event-stream')) return response;
        response.destroy();
        const message = `The upstream engine sent no stream of events but content of type ${type}`;
        throw new SidaError({ code: 'internal', message });
      }
      const said = await text(response);
      if (status !== 429 && status !== 503) throw refused(status, said);
      const seconds = Number(headers['retry-after'] ?? 1) || 1;
      await delay(Math.min(seconds, 10) * 1_000, undefined, { signal });
    }
  }

  /** `fetch` would give up after 300 s without headers or without a part of the body. */
  #post(path: string, body: string, signal: AbortSignal): Promise<IncomingMessage> {
    const url = this.#base + path;
    const send = url.startsWith('https:') ? https : http;
    // The server may close a connection that waits for the next request just when the request comes.
    const options = { method: 'POST', headers: this.#headers, signal, agent: false };
    return new Promise((resolve, reject) => {
      send(url, options, resolve).on('error', reject).end(body);
    });
  }

  get #headers(): Record<string, string> {
    const { key } = this.#options;
    return {
      'content-type': 'application/json',
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
    };
  }

  /** Looks for the server until it is closed, since it may come, go and come back. */
  async #follow(): Promise<void> {
    while (this.#state.phase !== 'closed' && this.#state.phase !== 'failed') {
      try {
        await this.#look();
      } catch (error) {
        this.#lose(error as Error);
      }
      await delay(LOOK_MS, undefined, { ref: false });
    }
  }

  async #look(): Promise<void> {
    const signal = AbortSignal.any([this.#closed.signal, AbortSignal.timeout(SILENT_MS)]);
    const response = await fetch(`${this.#base}/v1/models`, { headers: this.#headers, signal });
    const text = await response.text();
    if (response.status === 401 || response.status === 403) return this.#fail(refused(response.status, text));
    if (!response.ok) throw refused(response.status, text);
    const { data } = JSON.parse(text) as { data: ListedModel[] };
    const { model } = this.#options;
    const found = data.find(({ id }) => id === model);
    if (found === undefined) {
      const names = data.map(({ id }) => id).join(', ');
      const message = `The upstream engine has no model ${JSON.stringify(model)}; it has ${names || 'none yet'}`;
      const error = new SidaError({ code: 'model_not_found', message });
      // A server that loads its model may list none.
      if (data.length === 0 || this.#model !== undefined) throw error;
      return this.#fail(error);
    }
    this.#model ??= upstreamModel(found, this.#options.alias);
    if (this.#state.phase !== 'ready')
      this.#setState({ phase: 'ready', detail: `ready: ${model} at ${this.#base}` });
  }

  #fail(error: SidaError): void {
    this.#setState({ phase: 'failed', detail: error.message, error: error.toBody() });
  }

  #lose({ message, cause }: Error): void {
    const { phase } = this.#state;
    if (phase === 'closed' || phase === 'failed') return;
    const why = cause instanceof Error ? cause.message : message;
    const detail = `no answer from ${this.#base}: ${why}`;
    if (phase === 'ready') this.restarts += 1;
    const next = this.#model === undefined ? 'starting' : 'restarting';
    if (phase !== next || detail !== this.#state.detail) this.#setState({ phase: next, detail });
  }

  #setState(state: EngineState): void {
    this.#state = state;
    for (const listener of this.#listeners) listener(state);
  }
}

function refused(status: number, text: string): SidaError {
  const { message: said = text.slice(0, 200), ...error } = errorIn(text);
  const long = error.code === 'context_length_exceeded' || error.type === 'exceed_context_size_error';
  const wrong = status === 400 || status === 422 || status === 413;
  const code = long ? 'context_length_exceeded' : wrong ? 'invalid_request' : 'internal';
  return new SidaError({ code, message: `The upstream engine refused the request (${status}): ${said}` });
}

function errorIn(text: string): { code?: unknown; type?: unknown; message?: string } {
  try {
    const body = JSON.parse(text);
    return body.error ?? body;
  } catch {
    return {};
  }
}
