/** Answers with an engine of its own, without a server. */
import { randomUUID } from 'node:crypto';
import { resolve } from 'node:path';
import { modelTexts } from '../../checkpoint/checkpoint-source.js';
import { isPack } from '../../checkpoint/manifest.js';
import { ENGINE_OPTION_NAMES, type EngineOptions, engineConfig } from '../../config/engine-config.js';
import { resolveOptions, UsageError } from '../../config/resolve.js';
import { EngineProcess } from '../../engine/engine-process.js';
import { SidaError } from '../../errors.js';
import { loadAddon } from '../../native/addon.js';
import { chat } from '../../tasks/chat/index.js';
import type { ChatResult } from '../../tasks/chat/job.js';
import type { ChatAnswer, ChatChunk } from '../../tasks/chat/schema.js';
import { ChatRequest } from '../../tasks/chat/schema.js';
import { limitsOf } from '../../tasks/shared/request-checks.js';
import type { Answers } from '../../tasks/task.js';
import { readChatTemplates } from '../../text/chat/template-files.js';
import { checkAgainst } from '../../text/schema-faults.js';
import type { givenFlags } from '../flags.js';
import { Progress } from '../progress.js';
import type { Settings } from './settings.js';
import { type Listener, type Said, type Talker, tell, type Usage } from './talker.js';

export class LocalTalker implements Talker {
  readonly #engine: EngineProcess;
  readonly #options: EngineOptions;

  private constructor(engine: EngineProcess, options: EngineOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /** Resolves when the model is open. Rejects before it is loaded when it has no chat template. */
  static async open(model: string, flags: ReturnType<typeof givenFlags>): Promise<LocalTalker> {
    const options = resolveOptions(ENGINE_OPTION_NAMES, { flags: { ...flags, model }, env: process.env });
    const config = engineConfig(options);
    requireTemplate(model);
    const engine = new EngineProcess(config);
    try {
      await ready(engine);
    } catch (error) {
      await engine.close(0);
      throw error;
    }
    return new LocalTalker(engine, options);
  }

  get model(): string {
    return this.#engine.model!.name;
  }

  get contextTokens(): number {
    return this.#engine.model!.contextTokens;
  }

  get sampled(): boolean {
    return this.#engine.model!.sampling !== null;
  }

  async answer(messages: readonly Said[], settings: Settings, listener: Listener): Promise<Usage> {
    const { result } = await this.#run({ ...settings, messages, stream: true }, listener);
    const { promptTokens, cachedTokens = 0, completionTokens } = result;
    return { promptTokens, cachedTokens, completionTokens };
  }

  async whole(messages: readonly Said[], settings: Settings): Promise<ChatAnswer> {
    const { result, answers } = await this.#run({ ...settings, messages });
    return answers.whole(result) as ChatAnswer;
  }

  close(): Promise<void> {
    return this.#engine.close(0);
  }

  async #run(
    request: object,
    listener?: Listener,
  ): Promise<{ result: ChatResult; answers: Answers<ChatResult> }> {
    const checked = checkAgainst(ChatRequest, request);
    if ('fault' in checked) throw new UsageError(`${checked.fault.path.join('.')}: ${checked.fault.message}`);
    const model = this.#engine.model!;
    const { job } = chat.prepare(checked.data, model, limitsOf(model, this.#options));
    const id = randomUUID();
    const answers = chat.answers({ model: model.name, id, createdMs: Date.now(), form: chat.form(job) });
    const result = await this.#engine.run(id, job, {
      signal: listener?.signal ?? new AbortController().signal,
      ...(listener && {
        onDelta: (delta) => {
          for (const chunk of answers.chunks!(delta)) tell(chunk as ChatChunk, listener);
        },
      }),
    });
    return { result: result as ChatResult, answers };
  }
}

function requireTemplate(path: string): void {
  const model = resolve(path);
  const texts = modelTexts(model);
  if (readChatTemplates(texts.get('chat_template.jinja'), texts.get('tokenizer_config.json')) !== undefined)
    return;
  // A path without a model has no template either.
  if (!isPack(model)) loadAddon().inspectCheckpoint(model);
  const message = `The model ${JSON.stringify(path)} has no chat template, so it cannot chat: \`sida serve\` offers its /v1/completions and its tasks`;
  throw new SidaError({ code: 'invalid_request', message });
}

function ready(engine: EngineProcess): Promise<void> {
  const progress = new Progress();
  return new Promise((opened, reject) => {
    engine.onState((state) => {
      if (state.progress !== undefined && state.phase !== 'ready') progress.show(state.progress);
      if (state.phase !== 'ready' && state.phase !== 'failed') return;
      progress.stop();
      if (state.phase === 'ready') opened();
      else reject(new SidaError(state.error ?? { code: 'internal', message: state.detail }));
    });
    engine.start();
  });
}
