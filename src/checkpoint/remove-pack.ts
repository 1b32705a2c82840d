/** Removes packs from a cache while other processes may open them, or make them again. */
import { closeSync, readdirSync } from 'node:fs';
import { rename, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { isMissing, SidaError } from '../errors.js';
import { openModelFile } from '../files/model-file.js';
import type { OpenFile } from '../files/regular-file.js';
import { isRemoved, locksOf, removedName, unfinishedPack } from './cache-names.js';
import { type CachedPack, changedMs, hasPackManifest } from './cached-packs.js';
import type { FileHashes } from './file-hashes.js';
import { type Lock, tryLock } from './lock-file.js';
import { takePack } from './pack-use.js';

/**
 * Removes a pack, or what is left of one, from the cache. Returns false, and leaves it, while a process holds it, when
 * it has changed since it was listed, and when it is no pack.
 */
export async function removePack(
  packDir: string,
  { pack, madeMs }: Pick<CachedPack, 'pack' | 'madeMs'>,
  hashes: FileHashes,
): Promise<boolean> {
  const directory = join(packDir, pack);
  const out = unfinishedPack(pack);
  const removable = () =>
    out === undefined ? isRemoved(pack) || hasPackManifest(directory) : changedMs(directory) <= madeMs;
  const locks: Lock[] = [];
  try {
    // Nothing is locked, which makes files, in what is no pack.
    if (!removable()) return false;
    const conversion = out === undefined ? [] : locksOf(out).map((name) => join(packDir, `${name}.lock`));
    for (const path of conversion) if (!hold(locks, tryLock(path, { shared: false }))) return false;
    // Again, since a conversion may have gone on meanwhile, and before the lock below is written into the directory.
    if (!removable()) return false;
    // An exchange of texts leaves a pack that a process may have opened.
    if ((out === undefined || hasPackManifest(directory)) && !hold(locks, takePack(directory))) return false;
    // From here nobody opens it. A removal that is interrupted is known by this name.
    const removed = isRemoved(pack) ? directory : join(packDir, removedName(pack));
    await rename(directory, removed);
    await unlinkWeights(removed, hashes);
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

/** Adds the lock to those that are released at the end. Returns false when another process has it. */
function hold(locks: Lock[], lock: Lock | undefined): boolean {
  if (lock !== undefined) locks.push(lock);
  return lock !== undefined;
}

/** Removes the weight files one by one, so that the hashes of those that another pack shares stay known. */
async function unlinkWeights(directory: string, hashes: FileHashes): Promise<void> {
  for (const name of readdirSync(directory).filter((each) => each.endsWith('.sida'))) {
    const file = regularFile(directory, name);
    if (file === undefined) continue;
    try {
      await hashes.across(file.fd, () => unlink(join(directory, name)));
    } finally {
      closeSync(file.fd);
    }
  }
}

/** Undefined for anything else: it has no hash to keep. */
function regularFile(directory: string, name: string): OpenFile | undefined {
  try {
    return openModelFile(directory, name, { code: 'pack_invalid' });
  } catch (error) {
    if (error instanceof SidaError && error.code === 'pack_invalid') return undefined;
    throw error;
  }
}
