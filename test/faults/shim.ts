/** Libraries that are preloaded into a server: one that makes its files, memory and clock fail, and what steers it. */
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FAULTS = { none: 0, error: 1, short: 2, end: 3 } as const;
const SECONDS_AT = 24;
const MATCH_AT = 64;

/** Builds the C file `source` of this folder as the library `out`. */
export function buildPreload(source: string, out: string): void {
  const path = join(import.meta.dirname, source);
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', out, path, '-ldl']);
}

/** Processes that start within `start`, and their children, are preloaded with `library` and get these variables. */
export async function preloaded<T>(
  library: string,
  variables: { [name: string]: string },
  start: () => T | Promise<T>,
): Promise<T> {
  const all = { LD_PRELOAD: library, ...variables };
  Object.assign(process.env, all);
  try {
    return await start();
  } finally {
    for (const name of Object.keys(all)) delete process.env[name];
  }
}

export class FaultShim {
  readonly #directory = mkdtempSync(join(tmpdir(), 'sida-shim-'));
  readonly #library = join(this.#directory, 'shim.so');
  readonly #path = join(this.#directory, 'control');
  readonly #control: number;
  #seconds = 0;

  constructor() {
    buildPreload('shim.c', this.#library);
    writeFileSync(this.#path, Buffer.alloc(4096));
    this.#control = openSync(this.#path, 'r+');
  }

  /** Processes that start within `start` are steered, and their children. */
  during<T>(start: () => T | Promise<T>): Promise<T> {
    return preloaded(this.#library, { SIDA_FAULT_CONTROL: this.#path }, start);
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

  /** Sets the wall clock forward, or back with a negative number. */
  jump(seconds: number): void {
    this.#seconds += seconds;
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(this.#seconds));
    writeSync(this.#control, bytes, 0, 8, SECONDS_AT);
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
