/** A conversation: what was said, the settings of its answers, and what they took. */
import { SidaError } from '../../errors.js';
import type { Settings } from './settings.js';
import type { Listener, Said, Talker, Usage } from './talker.js';

interface Measured extends Usage {
  /** Time to the first text, and from there to the end. */
  firstSeconds: number;
  seconds: number;
}

export class Conversation {
  readonly settings: Settings;
  readonly #talker: Talker;
  #said: Said[] = [];
  #system: string | undefined;
  #last: Measured | undefined;
  #tokens = { prompt: 0, completion: 0 };

  constructor(talker: Talker, system: string | undefined, settings: Settings) {
    this.#talker = talker;
    this.#system = system;
    this.settings = settings;
  }

  /** What applies where nothing is set. */
  get advice(): Settings {
    return this.#talker.advice ?? {};
  }

  /** Words of the system message; undefined without one. */
  get system(): string | undefined {
    return this.#system;
  }

  setSystem(text: string): void {
    this.#system = text === '' ? undefined : text;
  }

  /** Forgets what was said. The system message and the settings stay. */
  clear(): void {
    this.#said = [];
    this.#last = undefined;
  }

  /**
   * Says `content` and passes the answer on. An answer that was aborted stays as far as it came. Rejects with SidaError
   * for a refusal; the conversation is then as before.
   */
  async say(content: string, listener: Listener): Promise<void> {
    const said: Said[] = [...this.#said, { role: 'user', content }];
    const system: Said[] = this.#system === undefined ? [] : [{ role: 'system', content: this.#system }];
    const begun = performance.now();
    let first: number | undefined;
    let answer = '';
    const seen = (tell: (text: string) => void) => (text: string) => {
      first ??= performance.now();
      tell(text);
    };
    const listening: Listener = {
      ...listener,
      onReasoning: seen(listener.onReasoning),
      onText: seen((text) => {
        answer += text;
        listener.onText(text);
      }),
    };
    try {
      const usage = await this.#talker.answer([...system, ...said], this.settings, listening);
      const end = performance.now();
      const firstSeconds = ((first ?? end) - begun) / 1000;
      this.#last = { ...usage, firstSeconds, seconds: (end - (first ?? end)) / 1000 };
      this.#tokens.prompt += usage.promptTokens;
      this.#tokens.completion += usage.completionTokens;
    } catch (error) {
      if (!(error instanceof SidaError && error.code === 'cancelled')) throw error;
      if (answer === '') return;
    }
    this.#said = [...said, { role: 'assistant', content: answer }];
  }

  stats(): string[] {
    const { contextTokens } = this.#talker;
    if (this.#last === undefined) return ['Nothing has been answered yet'];
    const { promptTokens, cachedTokens, completionTokens, firstSeconds, seconds } = this.#last;
    const used = promptTokens + completionTokens;
    const rate = completionTokens > 1 && seconds > 0 ? (completionTokens - 1) / seconds : undefined;
    const parts = [
      `${completionTokens} tokens`,
      rate === undefined ? '' : `${rate.toFixed(1)} tokens/s`,
      `first token after ${firstSeconds.toFixed(2)} s`,
      `prompt of ${promptTokens} tokens, ${cachedTokens} of them cached`,
    ];
    const share =
      contextTokens === undefined
        ? ''
        : ` of ${contextTokens} tokens (${Math.round((100 * used) / contextTokens)} %)`;
    return [
      `last answer  ${parts.filter(Boolean).join(' · ')}`,
      `context      ${used}${share}`,
      `session      ${this.#tokens.prompt} prompt tokens, ${this.#tokens.completion} completion tokens`,
    ];
  }
}
