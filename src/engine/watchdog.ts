/**
 * Ends an engine process that was ready and has stopped sending messages. A frozen process does not exit by itself.
 */

/** Time between checks. A ready engine sends a message as often. */
const LOOK_MS = 1_000;
/** Most consecutive checks without a message before the engine is ended. */
const SILENT_LOOKS = 10;

export class Watchdog {
  readonly #onSilence: () => void;
  #timer: NodeJS.Timeout | undefined;
  #silentLooks = 0;

  constructor(onSilence: () => void) {
    this.#onSilence = onSilence;
  }

  start(): void {
    this.stop();
    this.#silentLooks = 0;
    // Count checks, not time: after a freeze of this process, one check runs before the waiting messages are read.
    this.#timer = setInterval(() => {
      this.#silentLooks += 1;
      if (this.#silentLooks > SILENT_LOOKS) this.#onSilence();
    }, LOOK_MS).unref();
  }

  heard(): void {
    this.#silentLooks = 0;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
