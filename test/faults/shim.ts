/**
 * Makes files and memory of a server fail: a library preloaded into it, built from shim.c, and the file that steers
 * it.
 */
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildPreload, withEnvironment } from './preload.js';

const FAULTS = { none: 0, error: 1, short: 2, end: 3 } as const;
const MATCH_AT = 64;

export class FaultShim {
  readonly #directory: string;
  readonly #control: number;

  private constructor(directory: string) {
    this.#directory = directory;
    const path = join(directory, 'control');
    writeFileSync(path, Buffer.alloc(4096));
    this.#control = openSync(path, 'r+');
  }

  /** Undefined, and said so, where there is no compiler. */
  static build(): FaultShim | undefined {
    const directory = mkdtempSync(join(tmpdir(), 'sida-shim-'));
    if (buildPreload('shim.c', join(directory, 'shim.so'))) return new FaultShim(directory);
    rmSync(directory, { recursive: true });
    return undefined;
  }

  /** Processes that start within `start` are preloaded, and their children. */
  during<T>(start: () => T | Promise<T>): Promise<T> {
    const control = { SIDA_FAULT_CONTROL: join(this.#directory, 'control') };
    return withEnvironment({ LD_PRELOAD: join(this.#directory, 'shim.so'), ...control }, start);
  }

  /** From now on reads of files whose path contains `match` fail, but for the first `pass`. */
  failReads(fault: keyof typeof FAULTS, match: string, pass = 0): void {
    this.#set(0, FAULTS.none);
    const name = Buffer.alloc(192);
    name.write(match);
    writeSync(this.#control, name, 0, name.length, MATCH_AT);
    this.#set(1, pass);
    this.#set(2, 0);
    this.#set(0, FAULTS[fault]);
  }

  healReads(): void {
    this.#set(0, FAULTS.none);
  }

  get failedReads(): number {
    return this.#get(2);
  }

  /** The addon's nth allocation of memory from now on fails; 0: none does. */
  failAllocation(nth: number): void {
    this.#set(4, 0);
    this.#set(3, nth);
  }

  get failedAllocations(): number {
    return this.#get(4);
  }

  remove(): void {
    closeSync(this.#control);
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #set(word: number, value: number): void {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32LE(value);
    writeSync(this.#control, bytes, 0, 4, word * 4);
  }

  #get(word: number): number {
    const bytes = Buffer.alloc(4);
    readSync(this.#control, bytes, 0, 4, word * 4);
    return bytes.readInt32LE();
  }
}
