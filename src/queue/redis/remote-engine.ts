/**
 * Replaces the engine of a server whose jobs run on workers. It provides the model that the workers have published.
 */

import { resolve } from 'node:path';
import type { Redis } from 'ioredis';
import { modelName } from '../../checkpoint/gguf/gguf-path.js';
import type { ServeOptions } from '../../config/options.js';
import type { EngineHandle, EngineState } from '../../engine/engine-handle.js';
import { SidaError } from '../../errors.js';
import { hubNameOf } from '../../hub/hub-name.js';
import type { ControlReply, JobResult, ModelInfo } from '../../protocol/engine-messages.js';
import { differencesOf, GONE_MS, type PublishedModel, publishedModels } from './published-models.js';
import { producerClient, redisTime } from './redis-client.js';

/** Milliseconds between queries for the model. */
const LOOK_MS = 1_000;

export class RemoteEngine implements EngineHandle {
  readonly computes = undefined;
  readonly counters = undefined;
  readonly tokenizer = undefined;
  readonly grammars = undefined;
  readonly restarts = 0;
  readonly #url: string;
  readonly #names: string[];
  readonly #listeners = new Set<(state: EngineState) => void>();
  #state: EngineState;
  #client: Redis | undefined;
  #timer: NodeJS.Timeout | undefined;
  #found: PublishedModel | undefined;
  /** Whether workers have served the model since this server looks. */
  #served = false;

  /** `model` is the path given to workers. Without an alias its last part is the model's name. */
  constructor(url: string, { model, alias }: Pick<ServeOptions, 'model' | 'alias'>) {
    this.#url = url;
    const hub = hubNameOf(model);
    this.#names = [alias ?? hub?.repo ?? modelName(resolve(model))];
    // Workers of one of its GGUF files are called as the file, and an upstream is as the last part.
    if (alias === undefined && hub !== undefined) this.#names.push(modelName(resolve(model)));
    this.#state = {
      phase: 'starting',
      detail: `No worker has announced the model ${JSON.stringify(this.#names[0])} yet`,
    };
  }

  get state(): EngineState {
    return this.#state;
  }

  get model(): ModelInfo | undefined {
    return this.#found?.model;
  }

  get queueName(): string | undefined {
    return this.#found?.queueName;
  }

  start(): void {
    if (this.#client !== undefined) return;
    // The queue logs errors of Redis.
    this.#client = producerClient(this.#url).on('error', () => undefined);
    this.#client.on('ready', () => void this.#look());
    this.#timer = setInterval(() => void this.#look(), LOOK_MS).unref();
  }

  run(): Promise<JobResult> {
    return Promise.reject(elsewhere());
  }

  control(): Promise<ControlReply> {
    return Promise.reject(elsewhere());
  }

  onState(listener: (state: EngineState) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#client?.disconnect();
    this.#setState({ phase: 'closed', detail: 'closed' });
  }

  async #look(): Promise<void> {
    const client = this.#client!;
    if (client.status !== 'ready' || this.#state.phase === 'closed') return;
    try {
      const named = (await publishedModels(client)).filter(({ model }) => this.#names.includes(model.name));
      this.#choose(named, await redisTime(client));
    } catch {
      // Redis is away. The next query tries again.
    }
  }

  /**
   * Chooses a model that workers serve once and keeps it, because answers must not change under a running server. Until
   * then it is the model that was served last, so that its kept jobs can be read.
   */
  #choose(named: PublishedModel[], now: number): void {
    if (this.#served || this.#state.phase === 'closed') return;
    const served = named.filter(({ seenMs }) => now - seenMs < GONE_MS);
    if (served.length > 1) {
      const all = served.map(({ model }) => model.fingerprint.slice(0, 12)).join(', ');
      const detail = `Workers serve ${served.length} models or settings named ${JSON.stringify(this.#names[0])}, which differ in ${differencesOf(served).join(', ')} (fingerprints ${all})`;
      this.#found = undefined;
      if (detail !== this.#state.detail) this.#setState({ phase: 'starting', detail });
      return;
    }
    this.#served = served.length === 1;
    const found = served[0] ?? this.#found ?? named[0];
    if (found === undefined || (found.queueName === this.queueName && this.#state.phase === 'ready')) return;
    this.#found = found;
    this.#setState({ phase: 'ready', detail: `workers serve ${found.model.name}` });
  }

  #setState(state: EngineState): void {
    this.#state = state;
    for (const listener of this.#listeners) listener(state);
  }
}

function elsewhere(): SidaError {
  return new SidaError({
    code: 'cannot_run',
    message: 'This server has no engine of its own: budgets, experts and profiles are those of its workers',
  });
}
