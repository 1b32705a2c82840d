/** The directory that a run trains into. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { type Lock, lockHolder, tryLock } from '../../checkpoint/lock-file.js';
import { makeDirectory } from '../../files/make-directory.js';
import type { NetworkName } from '../../protocol/predictor-messages.js';
import { cannotRun } from './corpus.js';
import { findManifest, MANIFEST } from './manifest.js';

/** Subdirectory with the state of a run that has not ended. */
const UNFINISHED = 'unfinished';
const LOCK = 'lock';

type Settings = Record<string, unknown>;

/** All settings that decide the outcome of a run, by name. */
export interface RunIdentity extends Settings {
  network: NetworkName;
  /** The settings that all networks of a directory share. */
  data: Settings;
}

/** Lists the settings in which two runs differ. */
export function difference(before: Settings, now: Settings): string {
  const show = (value: unknown) => JSON.stringify(value) ?? 'nothing';
  return [...new Set([...Object.keys(before), ...Object.keys(now)])]
    .filter((name) => show(before[name]) !== show(now[name]))
    .map((name) => `${name} is ${show(before[name])} there and ${show(now[name])} here`)
    .join(', ');
}

export class OutputDirectory {
  readonly path: string;
  /** Whether this same run ended earlier. */
  readonly finished: boolean;
  readonly #lock: Lock | undefined;

  private constructor(path: string, lock?: Lock) {
    this.path = path;
    this.finished = lock === undefined;
    this.#lock = lock;
  }

  /**
   * Claims and locks the directory for this run. A predictor of the same traces that lacks this kind of network may be
   * there. Throws cannot_run if the directory holds a predictor that the run cannot join or unrelated files, or if
   * another process is training into it.
   */
  static async claim(path: string, identity: RunIdentity): Promise<OutputDirectory> {
    for (const { run } of Object.values(findManifest(path)?.networks ?? {})) {
      if (isDeepStrictEqual(run, identity)) return new OutputDirectory(path);
      if (run.network !== identity.network && isDeepStrictEqual(run.data, identity.data)) continue;
      throw cannotRun(
        `${path} holds a predictor of another run: ${difference(run, identity)}; name another --out, or remove it`,
      );
    }
    makeDirectory(path);
    const others = (await readdir(path)).filter((name) => name !== UNFINISHED);
    if (others.length > 0 && !others.some((name) => name === MANIFEST || name === identity.network)) {
      throw cannotRun(
        `${path} is not empty and not of sida train: it holds ${others.slice(0, 3).join(', ')}; name another --out`,
      );
    }
    const unfinished = join(path, UNFINISHED);
    makeDirectory(unfinished);
    const lock = tryLock(join(unfinished, LOCK), { shared: false });
    if (lock !== undefined) return new OutputDirectory(path, lock);
    const holder = lockHolder(join(unfinished, LOCK)) ?? '';
    throw cannotRun(`Process ${holder} trains into ${path}; wait for its end, or name another --out`);
  }

  /** Returns the state directory of one network, and creates it if it is missing. */
  async stateOf(network: string): Promise<string> {
    const path = join(this.path, UNFINISHED, network);
    makeDirectory(path);
    return path;
  }

  /** Releases the directory, so that another process may continue the run. */
  release(): void {
    this.#lock?.release();
  }

  /** Deletes the state of a run that has ended. */
  async removeState(): Promise<void> {
    await rm(join(this.path, UNFINISHED), { recursive: true, force: true });
  }
}
