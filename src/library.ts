/** The package as a library: `import { openEngine } from 'sida'`. An engine runs in a child process of its own. */
import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { ENGINE_OPTION_NAMES, type EngineOptions, engineConfig } from './config/engine-config.js';
import { resolveOptions, UsageError } from './config/resolve.js';
import { EngineClient } from './engine/engine-client.js';
import type { EngineState } from './engine/engine-handle.js';
import { SidaError } from './errors.js';
import type { DeviceUsage } from './native/addon-types.js';
import type { CompletionDelta, JobResult, ModelInfo } from './protocol/engine-messages.js';
import { chat } from './tasks/chat/index.js';
import type { ChatAnswer, ChatChunk, ChatRequest } from './tasks/chat/schema.js';
import { classify } from './tasks/classify/index.js';
import type { ClassifyAnswer, ClassifyRequest } from './tasks/classify/schema.js';
import { complete } from './tasks/complete/index.js';
import type { CompletionAnswer, CompletionRequest } from './tasks/complete/schema.js';
import { embed } from './tasks/embed/index.js';
import type { EmbeddingAnswer, EmbeddingRequest } from './tasks/embed/schema.js';
import { ALL_TASKS } from './tasks/registry.js';
import { limitsOf } from './tasks/shared/request-checks.js';
import { type Quote, quoteAnswer } from './tasks/shared/schema.js';
import type { AnyTask } from './tasks/task.js';
import { checkAgainst } from './text/schema-faults.js';

export { SidaError, UsageError };

/** The options of `sida serve` that concern the engine, by their names in docs/cli.md in camel case. */
export type LibraryOptions = Partial<
  Record<Exclude<keyof EngineOptions, 'model'>, string | number | boolean>
> & {
  /** Called while the model is verified, packed and loaded. */
  onProgress?: (progress: NonNullable<EngineState['progress']>) => void;
};

interface Cancel {
  /** Aborting ends the request. It then rejects with SidaError of the code `cancelled`. */
  signal?: AbortSignal;
}

/** A request body of the HTTP API, without what concerns serving. */
type Body<Schema extends z.ZodType> = Omit<z.input<Schema>, 'model' | 'stream' | 'stream_options'>;

/**
 * Opens a checkpoint, a GGUF file or a packed model. Rejects with UsageError for a wrong option, and with SidaError
 * when the model cannot be served within its budget.
 */
export async function openEngine(model: string, given: LibraryOptions = {}): Promise<SidaEngine> {
  const { onProgress, ...values } = given;
  const known = new Set<string>(ENGINE_OPTION_NAMES);
  const flags: Record<string, string> = { model };
  for (const [name, value] of Object.entries(values)) {
    if (!known.has(name)) throw new UsageError(`There is no option ${JSON.stringify(name)} of an engine`);
    if (value !== undefined) flags[name] = String(value);
  }
  const options = resolveOptions(ENGINE_OPTION_NAMES, { flags, env: {} });
  return SidaEngine.open(options, onProgress);
}

export class SidaEngine {
  readonly #engine: EngineClient;
  readonly #options: EngineOptions;

  private constructor(engine: EngineClient, options: EngineOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /** Resolves when the model is loaded. Rejects as openEngine does. */
  static async open(options: EngineOptions, onProgress?: LibraryOptions['onProgress']): Promise<SidaEngine> {
    const engine = new EngineClient(engineConfig(options));
    try {
      await ready(engine, onProgress);
    } catch (error) {
      await engine.close(0);
      throw error;
    }
    return new SidaEngine(engine, options);
  }

  /** The model's name, shape, limits and memory. */
  get model(): ModelInfo {
    return this.#engine.model!;
  }

  /** The whole answer of a chat, as `/v1/chat/completions` gives it. */
  chat(request: Body<typeof ChatRequest>, options?: Cancel): Promise<ChatAnswer> {
    return this.#whole(chat as AnyTask, request, options);
  }

  /** The whole answer to a prompt, as `/v1/completions` gives it. */
  complete(
    request: Body<typeof CompletionRequest>,
    options?: Cancel,
  ): Promise<z.infer<typeof CompletionAnswer>> {
    return this.#whole(complete as AnyTask, request, options);
  }

  /** The chunks of a chat's answer, as they are generated; the last one has the usage. Leaving the loop ends it. */
  generate(request: Body<typeof ChatRequest>, options?: Cancel): AsyncGenerator<ChatChunk, void> {
    return this.#chunks(chat as AnyTask, request, options);
  }

  /** One entry for each input, as `/v1/classify` gives it. */
  classify(request: Body<typeof ClassifyRequest>, options?: Cancel): Promise<z.infer<typeof ClassifyAnswer>> {
    return this.#whole(classify as AnyTask, request, options);
  }

  /** One embedding for each input, as `/v1/embeddings` gives it. */
  embed(request: Body<typeof EmbeddingRequest>, options?: Cancel): Promise<z.infer<typeof EmbeddingAnswer>> {
    return this.#whole(embed as AnyTask, request, options);
  }

  /** What a request of the HTTP API for `path` would cost, as `/v1/quote` tells it. Nothing runs. */
  async quote(path: string, request: object): Promise<z.infer<typeof Quote>> {
    const task = ALL_TASKS.find(({ route }) => route.path === path);
    if (task === undefined) throw new UsageError(`There is no task ${JSON.stringify(path)}`);
    const reply = await this.#engine.control({ kind: 'quote', job: this.#prepare(task, request).job });
    return quoteAnswer((reply as Extract<typeof reply, { kind: 'quote' }>).quote);
  }

  /** Changes the memory budget between two passes, for example to `2GiB`. Rejects if it is too small. */
  async setBudget(budget: string | number): Promise<DeviceUsage> {
    const reply = await this.#engine.control({ kind: 'set-budget', device: String(budget) });
    return (reply as Extract<typeof reply, { kind: 'set-budget' }>).usage;
  }

  close(): Promise<void> {
    return this.#engine.close(0);
  }

  async #whole<Answer>(task: AnyTask, request: object, { signal }: Cancel = {}): Promise<Answer> {
    const { run, answers } = this.#prepare(task, request);
    return answers.whole(await run(signal)) as Answer;
  }

  async *#chunks<Chunk>(
    task: AnyTask,
    request: object,
    { signal }: Cancel = {},
  ): AsyncGenerator<Chunk, void> {
    const { run, answers } = this.#prepare(task, { ...request, stream: true });
    const left = new AbortController();
    const { readable, writable } = new TransformStream<Chunk, Chunk>();
    const writer = writable.getWriter();
    // In one go: the next delta may come before the first chunk is taken.
    const write = async (chunks: readonly object[]) => {
      await Promise.all(chunks.map((chunk) => writer.write(chunk as Chunk)));
    };
    const ended = run(signal === undefined ? left.signal : AbortSignal.any([signal, left.signal]), (delta) =>
      write(answers.chunks!(delta)),
    )
      .then((result) => write(answers.closing?.(result) ?? []))
      .then(
        () => writer.close(),
        (error: unknown) => writer.abort(error),
      );
    try {
      yield* readable;
    } finally {
      left.abort();
      await ended.catch(() => undefined);
    }
  }

  #prepare(task: AnyTask, request: object) {
    const checked = checkAgainst(task.schemas.request, request);
    if ('fault' in checked) {
      const { path, message } = checked.fault;
      const param = path.join('.');
      throw new SidaError({
        code: 'invalid_request',
        message: param === '' ? message : `${param}: ${message}`,
        param,
      });
    }
    const { model } = this;
    const { job } = task.prepare(checked.data, model, limitsOf(model, this.#options));
    const id = randomUUID();
    const about = {
      model: model.name,
      id,
      createdMs: Date.now(),
      form: task.form(job),
      streamUsage: 'last' as const,
    };
    const answers = task.answers(about);
    const run = (
      signal: AbortSignal = new AbortController().signal,
      onDelta?: (delta: CompletionDelta) => Promise<void>,
    ): Promise<JobResult> => this.#engine.run(id, job, { signal, ...(onDelta !== undefined && { onDelta }) });
    return { job, run, answers };
  }
}

function ready(engine: EngineClient, onProgress: LibraryOptions['onProgress']): Promise<void> {
  return new Promise((opened, reject) => {
    engine.onState(({ phase, progress, error, detail }) => {
      if (progress !== undefined && phase !== 'ready') onProgress?.(progress);
      if (phase === 'ready') opened();
      else if (phase === 'failed') reject(new SidaError(error ?? { code: 'internal', message: detail }));
      // A server starts its engine again and again. Here somebody waits for it.
      else if (phase === 'restarting') reject(new SidaError({ code: 'engine_crashed', message: detail }));
    });
    engine.start();
  });
}
