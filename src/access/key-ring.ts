/** The keys that a server takes, and where they came from. */
import { readFileSync, statSync } from 'node:fs';
import { UsageError } from '../config/resolve.js';
import { hashKey, isKey, type KeyHash } from './api-key.js';
import { parseKeyFile } from './key-file.js';
import { SCOPES, type Scope } from './scopes.js';

/** The caller of a request. Jobs and limits belong to the caller; a new key under the old name keeps them. */
export interface Caller {
  owner: string;
  scopes: ReadonlySet<Scope>;
}

/** Without any key, every client that reaches the server has all scopes. */
export const ANYONE: Caller = { owner: 'anyone', scopes: new Set(SCOPES) };

interface KeySources {
  /** One key with all scopes. */
  apiKey?: string | undefined;
  /** A file of keys. */
  apiKeys?: string | undefined;
}

type Stored = Caller & { hash: KeyHash };

/** How often a changed file is looked for. */
const WATCH_MS = 2_000;
/** Longer than any key; a header may be much longer, and each key would hash it. */
const MOST_CHARACTERS = 512;

export class KeyRing {
  readonly #file: string | undefined;
  /** The key of `--api-key`, where there is one. */
  readonly #single: Stored[];
  #named: Stored[];
  /** What the file was when it was last read. */
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

  find(key: string): Caller | undefined {
    const given = key.length > MOST_CHARACTERS ? '' : key;
    let found: Caller | undefined;
    // All of them, so that the time does not tell which one matched, or whether one did.
    for (const stored of [...this.#single, ...this.#named]) if (isKey(given, stored.hash)) found = stored;
    return found;
  }

  /** Reads the file again; when it cannot be used, throws and keeps the keys it has. */
  reload(): void {
    if (this.#file === undefined) return;
    this.#read = versionOf(this.#file);
    this.#named = readKeys(this.#file);
  }

  /**
   * Calls `onChange`, which is to reload, while the file is not the one that was read, until the returned function is
   * called.
   */
  watch(onChange: () => void): () => void {
    const file = this.#file;
    if (file === undefined) return () => undefined;
    // By polling: it follows the links by which mounted secrets are exchanged, and sees files replaced by renaming.
    const timer = setInterval(() => {
      if (versionOf(file) !== this.#read) onChange();
    }, WATCH_MS);
    timer.unref();
    return () => clearInterval(timer);
  }
}

function versionOf(file: string): string {
  const stat = statSync(file, { throwIfNoEntry: false });
  return stat === undefined ? 'none' : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
}

function readKeys(file: string): Stored[] {
  try {
    return parseKeyFile(readFileSync(file, 'utf8')).map(({ name, scopes, hash }) => ({
      owner: name,
      scopes: new Set(scopes),
      hash,
    }));
  } catch (error) {
    throw new UsageError(`Cannot use the file of keys ${file}: ${(error as Error).message}`);
  }
}
