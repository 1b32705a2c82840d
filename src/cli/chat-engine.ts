/** An engine that answers conversations for commands, without a server. */

import { randomUUID } from 'node:crypto';
import { ENGINE_OPTION_NAMES, type EngineOptions, engineConfig } from '../config/engine-config.js';
import { number, wholeNumber } from '../config/parsers.js';
import { parseFlag, resolveOptions, UsageError } from '../config/resolve.js';
import { EngineProcess } from '../engine/engine-process.js';
import { SidaError } from '../errors.js';
import { chat } from '../tasks/chat/index.js';
import type { ChatChunk } from '../tasks/chat/schema.js';
import { ChatRequest } from '../tasks/chat/schema.js';
import { limitsOf } from '../tasks/shared/request-checks.js';
import { checkAgainst } from '../text/schema-faults.js';
import { givenFlags } from './flags.js';
import { Progress } from './progress.js';
import { startLine } from './start-line.js';

export interface Said {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

/** Flags of the commands beside those of the engine. */
interface AskFlags {
  maxTokens?: string;
  temperature?: string;
  seed?: string;
}

export class ChatEngine {
  readonly #engine: EngineProcess;
  readonly #options: EngineOptions;
  readonly #settings: object;

  private constructor(engine: EngineProcess, options: EngineOptions, settings: object) {
    this.#engine = engine;
    this.#options = options;
    this.#settings = settings;
  }

  /** Resolves when the model is open. */
  static async open(model: string, values: Record<string, unknown>): Promise<ChatEngine> {
    const { maxTokens, temperature, seed, ...flags } = values as AskFlags & Record<string, unknown>;
    const sources = { flags: givenFlags({ ...flags, model }), env: process.env };
    const options = resolveOptions(ENGINE_OPTION_NAMES, sources);
    const settings = {
      ...(maxTokens !== undefined && {
        max_completion_tokens: parseFlag('max-tokens', wholeNumber(1, 1e6, '200'), maxTokens),
      }),
      ...(temperature !== undefined && {
        temperature: parseFlag('temperature', number(0, 2, '0.7'), temperature),
      }),
      ...(seed !== undefined && { seed: parseFlag('seed', wholeNumber(0, 999_999_999_999_999, '7'), seed) }),
    };
    const engine = new EngineProcess(engineConfig(options));
    try {
      await ready(engine);
    } catch (error) {
      await engine.close(0);
      throw error;
    }
    return new ChatEngine(engine, options, settings);
  }

  /** What applies to answers, on one line. */
  get about(): string {
    return startLine(this.#engine.model!);
  }

  /** Passes the text of the answer on as it is generated, and resolves with all of it. */
  async answer(messages: readonly Said[], onText: (text: string) => void): Promise<string> {
    const checked = checkAgainst(ChatRequest, { ...this.#settings, messages, stream: true });
    if ('fault' in checked) throw new UsageError(`${checked.fault.path.join('.')}: ${checked.fault.message}`);
    const model = this.#engine.model!;
    const { job } = chat.prepare(checked.data, model, limitsOf(model, this.#options));
    const id = randomUUID();
    const answers = chat.answers({ model: model.name, id, createdMs: Date.now(), form: chat.form(job) });
    let whole = '';
    await this.#engine.run(id, job, {
      signal: new AbortController().signal,
      onDelta: (delta) => {
        for (const chunk of answers.chunks?.(delta) ?? []) {
          const text = (chunk as ChatChunk).choices[0]?.delta.content ?? '';
          whole += text;
          onText(text);
        }
      },
    });
    return whole;
  }

  close(): Promise<void> {
    return this.#engine.close(0);
  }
}

function ready(engine: EngineProcess): Promise<void> {
  const progress = new Progress();
  return new Promise((resolve, reject) => {
    engine.onState((state) => {
      if (state.progress !== undefined && state.phase !== 'ready') progress.show(state.progress);
      if (state.phase !== 'ready' && state.phase !== 'failed') return;
      progress.stop();
      if (state.phase === 'ready') resolve();
      else reject(new SidaError(state.error ?? { code: 'internal', message: state.detail }));
    });
    engine.start();
  });
}
