/** The keys that a server accepts: the key of `--api-key` and the keys of the file of `--api-keys`. */
import { statSync } from 'node:fs';
import { MOST_KEY_CHARACTERS } from '../config/parsers.js';
import { UsageError } from '../config/resolve.js';
import { readPrivateFile } from '../files/private-file.js';
import { causeOf } from '../text/system-error.js';
import { hashKey, isKey, type KeyHash } from './api-key.js';
import { parseKeyFile } from './key-file.js';
import { SCOPES, type Scope } from './scopes.js';

/** The caller of a request. Jobs and limits belong to the key's name, so a new key with the old name keeps them. */
export interface Caller {
  owner: string;
  scopes: ReadonlySet<Scope>;
}

/** The caller of every request when the server has no keys. It has all scopes. */
export const ANYONE: Caller = { owner: 'anyone', scopes: new Set(SCOPES) };

interface KeySources {
  /** One key with all scopes. */
  apiKey?: string | undefined;
  /** Path of a file of keys. */
  apiKeys?: string | undefined;
}

type Stored = Caller & { hash: KeyHash };

/** Milliseconds between checks for a changed file. */
const WATCH_MS = 2_000;

export class KeyRing {
  readonly #file: string | undefined;
  /** The key of `--api-key`; empty without one. */
  readonly #single: Stored[];
  #named: Stored[];
  /** Version of the file when it was last read. */
  #read = '';

  /** Throws UsageError when the file cannot be used. */
  constructor({ apiKey, apiKeys }: KeySources) {
    this.#file = apiKeys;
    this.#single =
      apiKey === undefined ? [] : [{ owner: 'default', scopes: ANYONE.scopes, hash: hashKey(apiKey) }];
    this.#named = [];
    this.reload();
  }

  get size(): number {
    return this.#single.length + this.#named.length;
  }

  get hasFile(): boolean {
    return this.#file !== undefined;
  }

  /** The caller whose key this is; undefined for an unknown key. */
  find(key: string): Caller | undefined {
    // A longer text would be hashed once for each key.
    const given = key.length > MOST_KEY_CHARACTERS ? '' : key;
    const keys = [...this.#single, ...this.#named];
    // Compares all keys, and counts instead of branching, so that the time reveals neither which key matched nor
    // whether one did: a branch at the key that matched took 20 ns.
    let found = keys.length;
    for (const [at, { hash }] of keys.entries()) found += (at - found) * Number(isKey(given, hash));
    return keys[found];
  }

  /** Reads the file again. Throws UsageError and keeps the present keys when the file cannot be used. */
  reload(): void {
    if (this.#file === undefined) return;
    this.#read = versionOf(this.#file);
    this.#named = readKeys(this.#file);
  }

  /**
   * Checks the file periodically until the returned function is called. Calls `onChange`, which must call `reload`,
   * when the file differs from the one that was read.
   */
  watch(onChange: () => void): () => void {
    const file = this.#file;
    if (file === undefined) return () => undefined;
    // Polling follows the links through which mounted secrets are replaced, and notices files replaced by renaming.
    const timer = setInterval(() => {
      if (versionOf(file) !== this.#read) onChange();
    }, WATCH_MS);
    timer.unref();
    return () => clearInterval(timer);
  }
}

/** Differs when the file was replaced or changed. The code of the error where it cannot be looked at. */
function versionOf(file: string): string {
  try {
    const { ino, size, mtimeMs, ctimeMs } = statSync(file);
    return `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'unknown';
  }
}

function readKeys(file: string): Stored[] {
  try {
    return parseKeyFile(readPrivateFile(file)).map(({ name, scopes, hash }) => ({
      owner: name,
      scopes: new Set(scopes),
      hash,
    }));
  } catch (error) {
    throw new UsageError(`Cannot use the file of keys ${file}: ${causeOf(error)}`);
  }
}
