/** The packs of a cache, when each was last used, and the removal of those that nobody uses. */
import { existsSync, lstatSync, readdirSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isMissing, SidaError } from '../errors.js';
import { readJsonFile } from '../files/json-file.js';
import { isRemoved, locksOf, removedName, unfinishedPack } from './cache-names.js';
import { type Lock, tryLock } from './lock-file.js';
import { MANIFEST } from './manifest.js';
import { isInUse, readUse, takePack } from './pack-use.js';

export interface CachedPack {
  /** Name of its directory in the cache. */
  pack: string;
  kind: 'pack' | 'unfinished' | 'removed';
  /** Bytes of its files. Packs of the same weights share the large ones. */
  bytes: number;
  /** Bytes of files that no other pack shares. */
  ownBytes: number;
  /** When a process opened it last, or wrote to it. */
  usedMs: number;
  /** The checkpoint that it was opened for. Null if nobody has recorded one. */
  source: string | null;
  inUse: boolean;
}

/** All packs of the cache, by name, and what conversions and removals have left behind. Other directories are none. */
export function cachedPacks(packDir: string): CachedPack[] {
  if (!existsSync(packDir)) return [];
  const directories = readdirSync(packDir, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return directories
    .flatMap(({ name }) => describePack(packDir, name) ?? [])
    .sort((a, b) => (a.pack < b.pack ? -1 : 1));
}

function describePack(packDir: string, pack: string): CachedPack | undefined {
  const directory = join(packDir, pack);
  try {
    const kind = kindOf(packDir, pack);
    if (kind === undefined) return undefined;
    const files = filesOf(directory);
    const use = kind === 'pack' ? readUse(directory) : undefined;
    return {
      pack,
      kind,
      bytes: sum(files),
      ownBytes: sum(files.filter(({ nlink }) => nlink === 1)),
      usedMs: use?.usedMs ?? changedMs(directory),
      source: use?.source ?? null,
      inUse: kind !== 'unfinished' && isInUse(directory),
    };
  } catch (error) {
    // Packs come and go while processes use the cache.
    if (isMissing(error)) return undefined;
    throw error;
  }
}

const anyPackSchema = z.object({ format: z.literal('sida-pack'), version: z.number() });

/** Undefined for a directory that is no pack. A pack may be of a version that this program cannot open. */
function kindOf(packDir: string, pack: string): CachedPack['kind'] | undefined {
  if (unfinishedPack(pack) !== undefined) return 'unfinished';
  if (isRemoved(pack)) return 'removed';
  try {
    const manifest = readJsonFile(join(packDir, pack), MANIFEST, anyPackSchema, { code: 'pack_invalid' });
    return manifest && 'pack';
  } catch (error) {
    if (error instanceof SidaError && error.code === 'pack_invalid') return undefined;
    throw error;
  }
}

function filesOf(directory: string) {
  return readdirSync(directory).flatMap(
    (name) => lstatSync(join(directory, name), { throwIfNoEntry: false }) ?? [],
  );
}

function changedMs(directory: string): number {
  return Math.max(lstatSync(directory).mtimeMs, ...filesOf(directory).map(({ mtimeMs }) => mtimeMs));
}

function sum(files: readonly { size: number }[]): number {
  return files.reduce((all, { size }) => all + size, 0);
}

/**
 * Removes a pack, or what is left of one. Returns false, and leaves it, while a process holds it, and when it was used
 * since it was listed.
 */
export async function removePack(
  packDir: string,
  { pack, kind, usedMs }: Pick<CachedPack, 'pack' | 'kind' | 'usedMs'>,
): Promise<boolean> {
  const directory = join(packDir, pack);
  const locks: Lock[] = [];
  const hold = (lock: Lock | undefined) => lock !== undefined && locks.push(lock) > 0;
  try {
    if (kindOf(packDir, pack) !== kind) return false;
    if (kind === 'unfinished') {
      const conversion = locksOf(unfinishedPack(pack)!).map((name) => join(packDir, `${name}.lock`));
      if (!conversion.every((path) => hold(tryLock(path, { shared: false })))) return false;
      if (changedMs(directory) > usedMs) return false;
    } else if (!hold(takePack(directory))) return false;
    // From here nobody opens it. A removal that is interrupted is known by this name.
    const removed = kind === 'removed' ? directory : join(packDir, removedName(pack));
    await rename(directory, removed);
    await rm(removed, { recursive: true, force: true });
    return true;
  } catch (error) {
    // Another process has removed it, or gone on with the conversion.
    if (isMissing(error)) return false;
    throw error;
  } finally {
    for (const lock of locks) lock.release();
  }
}
