/** What a cached pack remembers of its use: the checkpoint that it serves, when it was last opened, and by whom now. */
import { join } from 'node:path';
import { z } from 'zod';
import { isMissing, SidaError } from '../errors.js';
import { isPresent, readModelFile } from '../files/model-file.js';
import { writeWholeFile } from '../files/whole-file.js';
import { parseJson } from '../text/one-line.js';
import { type Lock, tryLock, waitForLock } from './lock-file.js';
import { isPack } from './manifest.js';

const USE = 'use.json';
const LOCK = 'use.lock';
const MOST_BYTES = 64 << 10;

const schema = z.object({ source: z.string(), usedMs: z.number() });

export type PackUse = z.infer<typeof schema>;

/** `source` is the checkpoint's directory. A cache that cannot be written does without. */
export async function recordUse(pack: string, source: string): Promise<void> {
  const content = `${JSON.stringify({ source, usedMs: Date.now() })}\n`;
  await writeWholeFile(join(pack, USE), content, { durable: false, shared: true }).catch(() => undefined);
}

export function readUse(pack: string): PackUse | undefined {
  try {
    const json = readModelFile(pack, USE, { mostBytes: MOST_BYTES });
    return json && parseJson(json, schema);
  } catch {
    return undefined;
  }
}

/** Locks of this process, by pack. They are held until it ends. */
const kept = new Map<string, Lock>();

/**
 * Keeps the pack from being removed until the lock is released. Waits while a process examines or removes it. Returns
 * undefined where there is no pack (any more), and where no lock can be made: nobody can remove such a pack either.
 */
export async function holdPack(pack: string): Promise<Lock | undefined> {
  if (!isPack(pack)) return undefined;
  try {
    return await waitForLock(join(pack, LOCK), { shared: true, inside: true });
  } catch (error) {
    if (isMissing(error) || (error instanceof SidaError && error.code === 'io_error')) return undefined;
    throw error;
  }
}

/** Holds the pack until this process ends. */
export function keepPack(pack: string, lock: Lock | undefined): void {
  if (lock === undefined) return;
  kept.get(pack)?.release();
  kept.set(pack, lock);
}

/** Takes the pack for removal. Returns undefined while a process holds it. Throws when there is no such directory. */
export function takePack(pack: string): Lock | undefined {
  return tryLock(join(pack, LOCK), { shared: false, inside: true });
}

/** Whether a process holds the pack. */
export function isInUse(pack: string): boolean {
  if (!isPresent(pack, LOCK)) return false;
  try {
    const lock = takePack(pack);
    lock?.release();
    return lock === undefined;
  } catch (error) {
    // Whoever cannot lock it cannot remove it either.
    return !isMissing(error);
  }
}
