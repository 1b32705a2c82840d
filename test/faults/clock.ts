/** The wall clock of a process, which a test sets forward and back by a library preloaded into it (clock.c). */
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildPreload, withEnvironment } from './preload.js';

export class WallClock {
  readonly #directory: string;
  readonly #control: number;
  #seconds = 0;

  private constructor(directory: string) {
    this.#directory = directory;
    const path = join(directory, 'control');
    writeFileSync(path, Buffer.alloc(8));
    this.#control = openSync(path, 'r+');
  }

  /** Undefined, and said so, where there is no compiler. */
  static build(): WallClock | undefined {
    const directory = mkdtempSync(join(tmpdir(), 'sida-clock-'));
    if (buildPreload('clock.c', join(directory, 'clock.so'))) return new WallClock(directory);
    rmSync(directory, { recursive: true });
    return undefined;
  }

  /** Processes that start within `start` have this clock, and so have their children. */
  during<T>(start: () => T | Promise<T>): Promise<T> {
    const control = { SIDA_CLOCK_CONTROL: join(this.#directory, 'control') };
    return withEnvironment({ LD_PRELOAD: join(this.#directory, 'clock.so'), ...control }, start);
  }

  /** Sets the clock forward, or back with a negative number. */
  jump(seconds: number): void {
    this.#seconds += seconds;
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(this.#seconds));
    writeSync(this.#control, bytes, 0, 8, 0);
  }

  remove(): void {
    closeSync(this.#control);
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
