/** Answers with an engine of its own, without a server. */
import { resolve } from 'node:path';
import { modelTexts } from '../../checkpoint/checkpoint-source.js';
import { inspectModel } from '../../checkpoint/inspect-model.js';
import { isPack } from '../../checkpoint/manifest.js';
import { ENGINE_OPTION_NAMES } from '../../config/engine-config.js';
import { resolveOptions } from '../../config/resolve.js';
import { SidaError } from '../../errors.js';
import { SidaEngine } from '../../library.js';
import type { ChatAnswer, ChatChunk } from '../../tasks/chat/schema.js';
import { readChatTemplates } from '../../text/chat/template-files.js';
import type { givenFlags } from '../flags.js';
import { Progress } from '../progress.js';
import type { Settings } from './settings.js';
import { type Listener, type Said, type Talker, tell, type Usage, usageOf } from './talker.js';

export class LocalTalker implements Talker {
  readonly #engine: SidaEngine;

  private constructor(engine: SidaEngine) {
    this.#engine = engine;
  }

  /** Resolves when the model is open. Rejects before it is loaded when it has no chat template. */
  static async open(model: string, flags: ReturnType<typeof givenFlags>): Promise<LocalTalker> {
    const options = resolveOptions(ENGINE_OPTION_NAMES, { flags: { ...flags, model }, env: process.env });
    requireTemplate(model);
    const progress = new Progress();
    try {
      return new LocalTalker(await SidaEngine.open(options, (state) => progress.show(state)));
    } finally {
      progress.stop();
    }
  }

  get model(): string {
    return this.#engine.model.name;
  }

  get contextTokens(): number {
    return this.#engine.model.contextTokens;
  }

  get advice(): Settings | null {
    const { sampling } = this.#engine.model;
    if (sampling === null) return null;
    const { temperature, topP, topK, minP } = sampling;
    return { temperature, top_p: topP, top_k: topK, min_p: minP };
  }

  async answer(messages: readonly Said[], settings: Settings, listener: Listener): Promise<Usage> {
    let usage: ChatChunk['usage'];
    for await (const chunk of this.#engine.generate({ ...settings, messages: [...messages] }, listener)) {
      tell(chunk, listener);
      usage = chunk.usage ?? usage;
    }
    return usageOf(usage!);
  }

  whole(messages: readonly Said[], settings: Settings): Promise<ChatAnswer> {
    return this.#engine.chat({ ...settings, messages: [...messages] });
  }

  quote(messages: readonly Said[], settings: Settings): ReturnType<Talker['quote']> {
    return this.#engine.quote('/v1/chat/completions', { ...settings, messages: [...messages] });
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
}

function requireTemplate(path: string): void {
  const model = resolve(path);
  if (!isPack(model)) inspectModel(model);
  const texts = modelTexts(model);
  if (readChatTemplates(texts.get('chat_template.jinja'), texts.get('tokenizer_config.json')) !== undefined)
    return;
  const message = `The model ${JSON.stringify(path)} has no chat template, so it cannot chat: \`sida serve\` offers its other tasks`;
  throw new SidaError({ code: 'invalid_request', message });
}
