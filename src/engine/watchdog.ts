/** Ends an engine process that was ready and fell silent: one that is frozen answers nothing and does not exit. */

/** Between looks; a ready engine speaks as often. */
const LOOK_MS = 1_000;
/** Looks in a row without a word before the engine is given up. */
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
    // Looks are counted, not time: a process that was frozen itself looks once on waking, before it has read what came meanwhile.
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
