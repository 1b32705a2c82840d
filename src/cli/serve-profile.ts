/** The recording of `sida serve --profile`: it runs from readiness for a set time or until the server ends. */
import { closeSync, openSync, rmSync, statSync } from 'node:fs';
import { UsageError } from '../config/resolve.js';
import type { EngineHandle } from '../engine/engine-handle.js';
import { SidaError } from '../errors.js';
import { partialFile } from '../profile/trace-writer.js';

interface ServeProfileOptions {
  file: string;
  /** Length of the recording. Undefined records until the server ends. */
  seconds: number | undefined;
  bytes: number;
  /** Prints one line for the user: where the profile is, or why there is none. */
  tell: (line: string) => void;
}

export class ServeProfile {
  readonly #engine: EngineHandle;
  readonly #options: ServeProfileOptions;
  #timer: NodeJS.Timeout | undefined;
  #started = false;
  #ended: Promise<void> | undefined;

  constructor(engine: EngineHandle, options: ServeProfileOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /** Starts recording. Call it whenever an engine process is ready, because a crash loses the recording so far. */
  async start(): Promise<void> {
    if (this.#ended !== undefined) return;
    const { seconds, bytes, tell } = this.#options;
    try {
      await this.#engine.control({ kind: 'start-profile', bytes });
    } catch (error) {
      tell(`No profile is recorded: ${(error as Error).message}`);
      return;
    }
    this.#started = true;
    clearTimeout(this.#timer);
    if (seconds !== undefined) this.#timer = setTimeout(() => void this.end(), seconds * 1000).unref();
  }

  /** Stops recording and writes the file. Later calls return the same promise. */
  end(): Promise<void> {
    this.#ended ??= this.#write();
    return this.#ended;
  }

  async #write(): Promise<void> {
    clearTimeout(this.#timer);
    if (!this.#started) return;
    const { file, tell } = this.#options;
    try {
      const reply = await this.#engine.control({ kind: 'stop-profile', file });
      if (reply.kind !== 'stop-profile' || reply.written === null) return;
      const { seconds, events, dropped } = reply.written;
      const loss = dropped === 0 ? 'none dropped' : `${dropped} dropped (--profile-bytes)`;
      tell(
        `Profile: ${events} events of ${seconds.toFixed(1)} s in ${file}, ${loss}. ui.perfetto.dev opens it`,
      );
    } catch (error) {
      tell(`The profile is lost: ${SidaError.from(error).message}`);
    }
  }
}

/** Throws UsageError when `file` cannot be written. Runs before any work that would be lost. */
export function checkWritable(file: string): void {
  const refuse = (reason: string) => {
    throw new UsageError(`The "--profile" option is ${file}, which cannot be written: ${reason}`);
  };
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false) refuse('it is there and is no file');
  const partial = partialFile(file);
  try {
    closeSync(openSync(partial, 'w', 0o600));
  } catch (error) {
    refuse((error as Error).message);
  }
  rmSync(partial, { force: true });
}
