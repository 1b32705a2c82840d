/** The directory that a run trains into: the run that owns it, and the run's state until it has ended. */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { type Lock, lockHolder, tryLock } from '../../checkpoint/lock-file.js';
import { SidaError } from '../../errors.js';
import { readJsonFile } from '../../files/json-file.js';
import { writeWholeFile } from '../../files/whole-file.js';
import type { NetworkName } from '../../protocol/predictor-messages.js';
import { formatBytes } from '../../text/bytes.js';
import { MANIFEST, readPredictorManifest } from './manifest.js';

/** Subdirectory with the state of a run that has not ended. */
const UNFINISHED = 'unfinished';
const RUN = 'run.json';
const LOCK = 'lock';
/** State file of a network, in the network's own subdirectory. */
export const STATE = 'state.json';

/** All settings that decide the outcome of a run, by name. */
export interface RunIdentity {
  network: NetworkName;
  [setting: string]: unknown;
}

/** The settings that the networks of one directory share. */
const SHARED = ['model', 'traces', 'held-out'] as const;

type Settings = Record<string, unknown>;

export function digestOf(identity: Settings): string {
  return createHash('sha256').update(JSON.stringify(identity)).digest('hex');
}

function cannotRun(message: string): SidaError {
  return new SidaError({ code: 'cannot_run', message });
}

/** Lists the settings in which two runs differ. */
function difference(before: Settings, now: Settings): string {
  const show = (value: unknown) => JSON.stringify(value) ?? 'nothing';
  const names = [...new Set([...Object.keys(before), ...Object.keys(now)])];
  const differing = names.filter((name) => show(before[name]) !== show(now[name]));
  return differing
    .map((name) => `${name} is ${show(before[name])} there and ${show(now[name])} here`)
    .join(', ');
}

const ELSEWHERE = 'name another --out, or remove it';

/**
 * Whether the directory holds the predictor of this run. Throws cannot_run if it holds one that the run cannot join:
 * a network of the same kind, or networks of other traces.
 */
async function holdsRun(path: string, identity: RunIdentity): Promise<boolean> {
  if (!existsSync(join(path, MANIFEST))) return false;
  const { model, networks } = await readPredictorManifest(path);
  const { network } = identity;
  const same = networks[network];
  if (same !== undefined) {
    if (digestOf(same.run) === digestOf(identity)) return true;
    throw cannotRun(
      `${path} holds the ${network} network of another run: ${difference(same.run, identity)}; ${ELSEWHERE}`,
    );
  }
  const shared = (run: Settings) => Object.fromEntries(SHARED.map((name) => [name, run[name]]));
  for (const { run } of Object.values(networks)) {
    const [before, now] = [shared({ ...run, model: model.weights }), shared(identity)];
    if (digestOf(before) === digestOf(now)) continue;
    throw cannotRun(`${path} holds a predictor of other traces: ${difference(before, now)}; ${ELSEWHERE}`);
  }
  return false;
}

export class OutputDirectory {
  readonly path: string;
  /** Whether this same run ended earlier. */
  readonly finished: boolean;

  readonly #lock: Lock | undefined;

  private constructor(path: string, finished: boolean, lock?: Lock) {
    this.path = path;
    this.finished = finished;
    this.#lock = lock;
  }

  /**
   * Claims and locks the directory for this run. A predictor of the same traces that lacks this kind of network may be
   * there. Throws cannot_run, and changes nothing, if the directory holds the state of another run, a predictor that
   * the run cannot join or unrelated files, or if another process is training into it.
   */
  static async claim(path: string, identity: RunIdentity): Promise<OutputDirectory> {
    if (await holdsRun(path, identity)) return new OutputDirectory(path, true);
    const unfinished = join(path, UNFINISHED);
    const before = readJsonFile(unfinished, RUN, z.record(z.string(), z.unknown()), { code: 'cannot_run' });
    const other = before !== undefined && digestOf(before) !== digestOf(identity);
    const published = other && (await isPublished(path, before));
    if (before !== undefined) {
      if (other && !published && (await hasSaves(unfinished))) {
        throw cannotRun(
          `${path} holds the state of another run: ${difference(before, identity)}; start that one again, or ${ELSEWHERE}`,
        );
      }
    } else {
      await mkdir(path, { recursive: true });
      const others = (await readdir(path)).filter((name) => name !== UNFINISHED);
      if (others.length > 0 && !others.includes(MANIFEST)) {
        throw cannotRun(
          `${path} is not empty and not of sida train: it holds ${others.slice(0, 3).join(', ')}; name another --out`,
        );
      }
      await mkdir(unfinished, { recursive: true });
    }
    const lock = lockOrRefuse(join(unfinished, LOCK), path);
    try {
      if (published) await removeSaves(unfinished);
      await writeWholeFile(join(unfinished, RUN), `${JSON.stringify(identity, null, 1)}\n`);
    } catch (error) {
      lock.release();
      throw error;
    }
    return new OutputDirectory(path, false, lock);
  }

  /** Returns the state directory of one network, and creates it if it is missing. */
  async stateOf(network: string): Promise<string> {
    const path = join(this.path, UNFINISHED, network);
    await mkdir(path, { recursive: true });
    return path;
  }

  /** Releases the directory, so that another process may continue the run. */
  async release(): Promise<void> {
    this.#lock?.release();
  }

  /** Deletes the state of a run that has ended. */
  async removeState(): Promise<void> {
    await rm(join(this.path, UNFINISHED), { recursive: true, force: true });
  }
}

function lockOrRefuse(path: string, directory: string): Lock {
  const lock = tryLock(path, { shared: false });
  if (lock !== undefined) return lock;
  throw cannotRun(
    `Process ${lockHolder(path) ?? ''} trains into ${directory}; wait for its end, or name another --out`,
  );
}

/** Whether a run ended and was stopped just before it removed its state. */
async function isPublished(path: string, run: Settings): Promise<boolean> {
  if (!existsSync(join(path, MANIFEST))) return false;
  const { networks } = await readPredictorManifest(path);
  return Object.values(networks).some((entry) => digestOf(entry.run) === digestOf(run));
}

async function removeSaves(unfinished: string): Promise<void> {
  for (const name of await readdir(unfinished)) {
    if (name !== LOCK) await rm(join(unfinished, name), { recursive: true, force: true });
  }
}

/** Whether any network has saved its state. */
async function hasSaves(unfinished: string): Promise<boolean> {
  const names = await readdir(unfinished);
  return names.some((name) => existsSync(join(unfinished, name, STATE)));
}

/** Codes of failed writes: Node's errors, and the addon's. */
const DISK_ERRORS = ['ENOSPC', 'EDQUOT', 'EFBIG', 'EIO', 'EROFS', 'EACCES', 'EPERM', 'io_error'];

/**
 * Runs `save`. If the disk refuses a write, the error reports the bytes needed and free; the previous state is kept.
 */
export async function saving<T>(path: string, bytes: number, save: () => Promise<T> | T): Promise<T> {
  try {
    return await save();
  } catch (error) {
    if (!DISK_ERRORS.includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    const free = await statfs(path).then(
      ({ bavail, bsize }) => bavail * bsize,
      () => undefined,
    );
    const room = free === undefined ? '' : `, ${formatBytes(free)} are free`;
    throw new SidaError(
      {
        code: 'io_error',
        message: `Cannot save to ${path}: ${(error as Error).message}. About ${formatBytes(bytes)} are needed${room}. What was saved before is kept: start the same command again to go on from it`,
        details: { needed_bytes: bytes, ...(free !== undefined && { free_bytes: free }) },
      },
      { cause: error },
    );
  }
}
