/** What a cached pack remembers of its use: the checkpoint that it serves, when it was last opened, and by whom now. */
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { readModelFile } from '../files/model-file.js';
import { parseJson } from '../text/one-line.js';
import { type Lock, tryLock, withSharedLock } from './lock-file.js';
import { isPack } from './manifest.js';

const USE = 'use.json';
const LOCK = 'use.lock';
const MOST_BYTES = 64 << 10;

const schema = z.object({ source: z.string(), usedMs: z.number() });

export type PackUse = z.infer<typeof schema>;

/** `source` is the checkpoint's directory. A cache that cannot be written does without. */
export async function recordUse(pack: string, source: string): Promise<void> {
  const path = join(pack, USE);
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    await writeFile(temporary, `${JSON.stringify({ source, usedMs: Date.now() })}\n`);
    await rename(temporary, path);
  } catch {
    await rm(temporary, { force: true }).catch(() => undefined);
  }
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
const held = new Map<string, Lock>();

/** Keeps the pack from being removed while this process lives. Waits while it is being removed. */
export async function holdPack(pack: string): Promise<void> {
  const path = join(pack, LOCK);
  if (!isPack(pack)) return;
  try {
    const lock = await withSharedLock(path, async () => tryLock(path, { shared: true }));
    held.get(pack)?.release();
    if (lock !== undefined) held.set(pack, lock);
  } catch (error) {
    // A pack in a directory that cannot be written is not removed either.
    if (!(error instanceof SidaError && error.code === 'io_error')) throw error;
  }
}

/** Takes the pack for removal. Returns undefined while a process holds it. */
export function takePack(pack: string): Lock | undefined {
  return tryLock(join(pack, LOCK), { shared: false });
}
