/** Asks a server again and again whether it lives. */
import { setTimeout as delay } from 'node:timers/promises';
import { ask } from '../support/http-client.js';

const EVERY_MS = 200;

export class Heartbeat {
  /** The longest time from one answer to the next. */
  longestMs = 0;
  #going = true;
  readonly #asking: Promise<void>;

  constructor(port: number) {
    this.#asking = this.#ask(port);
  }

  async stop(): Promise<void> {
    this.#going = false;
    await this.#asking;
  }

  async #ask(port: number): Promise<void> {
    let last = performance.now();
    while (this.#going) {
      const answer = await ask(port, '/health/live').catch(() => undefined);
      const now = performance.now();
      this.longestMs = Math.max(this.longestMs, now - last);
      if (answer?.status === 200) last = now;
      await delay(EVERY_MS);
    }
  }
}
