/** The packs of a cache: what they are, whether they still serve their checkpoint, and their removal. */
import { closeSync, lstatSync, readdirSync } from 'node:fs';
import { rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { SidaError } from '../errors.js';
import { loadAddon } from '../native/addon.js';
import { readSource } from './checkpoint-source.js';
import type { FileHashes } from './file-hashes.js';
import { differingParts, modelIdentity } from './identity.js';
import { MANIFEST, openPackFile, readManifest } from './manifest.js';
import { readUse, takePack } from './pack-use.js';
import { isTextName, sha256Of } from './texts.js';
import { formatName } from './weight-format.js';

/**
 * - current: the checkpoint is there, and the pack is what it would be packed to.
 * - changed: the checkpoint has other content by now.
 * - gone: the checkpoint is not there.
 * - unknown: no server has recorded which checkpoint it serves.
 * - unreadable: it was made by another version, or its manifest is damaged.
 * - unfinished: a conversion that has not ended.
 */
export type SourceState = 'current' | 'changed' | 'gone' | 'unknown' | 'unreadable' | 'unfinished';

export interface CachedPack {
  /** Name of its directory in the cache. */
  pack: string;
  /** Name of the model, and its element types. Null when they cannot be read. */
  model: string | null;
  experts: string | null;
  dense: string | null;
  /** Bytes of its files. Packs of the same weights share the large ones. */
  bytes: number;
  madeMs: number;
  usedMs: number | null;
  source: string | null;
  state: SourceState;
  /** Parts of the identity in which the checkpoint differs now. */
  changed: string[];
  inUse: boolean;
}

interface ListOptions {
  hashes: FileHashes;
  onProgress?: (progress: { phase: 'hash'; done: number; total: number }) => void;
}

/** All packs of the cache, by name. Reads the checkpoints' weights where they may have changed. */
export async function cachedPacks(packDir: string, options: ListOptions): Promise<CachedPack[]> {
  const packs = [];
  for (const entry of readdirSync(packDir, { withFileTypes: true })) {
    if (entry.isDirectory()) packs.push(await describePack(packDir, entry.name, options));
  }
  return packs.sort((a, b) => (a.pack < b.pack ? -1 : 1));
}

/** Endings of the directories in which packs are made or exchanged. */
const UNFINISHED = /\.(partial|next|replaced)$/;

async function describePack(packDir: string, name: string, options: ListOptions): Promise<CachedPack> {
  const directory = join(packDir, name);
  const files = filesOf(directory);
  const changedMs = Math.max(lstatSync(directory).mtimeMs, ...files.map(({ mtimeMs }) => mtimeMs));
  const unknown: CachedPack = {
    pack: name,
    model: null,
    experts: null,
    dense: null,
    bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    madeMs: changedMs,
    usedMs: null,
    source: null,
    state: 'unreadable',
    changed: [],
    inUse: false,
  };
  if (UNFINISHED.test(name)) return { ...unknown, state: 'unfinished' };
  unknown.inUse = isInUse(directory);
  const manifest = await readManifest(directory).catch(() => undefined);
  if (manifest === undefined) return unknown;
  const use = readUse(directory);
  const identity = modelIdentity(manifest.source.weights, manifest.files);
  return {
    ...unknown,
    model: manifest.source.name,
    experts: formatName(manifest.experts),
    dense: formatName(manifest.dense),
    madeMs: lstatSync(join(directory, MANIFEST)).mtimeMs,
    usedMs: use?.usedMs ?? null,
    source: use?.source ?? null,
    ...(use === undefined ? { state: 'unknown' } : await sourceState(use.source, identity, options)),
  };
}

type Identity = ReturnType<typeof modelIdentity>;

async function sourceState(
  source: string,
  packed: Identity,
  options: ListOptions,
): Promise<Pick<CachedPack, 'state' | 'changed'>> {
  if (lstatSync(source, { throwIfNoEntry: false }) === undefined) return { state: 'gone', changed: [] };
  try {
    const { weights, texts } = await readSource(source, loadAddon().inspectCheckpoint(source), options);
    const files = [...texts].map(([name, bytes]) => ({ name, sha256: sha256Of(bytes) }));
    const changed = differingParts(packed, modelIdentity(weights, files));
    return { state: changed.length > 0 ? 'changed' : 'current', changed };
  } catch (error) {
    // It is no checkpoint any more, or a damaged one.
    const { code } = SidaError.from(error);
    if (code === 'checkpoint_invalid' || code === 'io_error')
      return { state: 'changed', changed: ['weights'] };
    throw error;
  }
}

interface FileOnDisk {
  inode: string;
  links: number;
  bytes: number;
  mtimeMs: number;
}

function filesOf(directory: string): FileOnDisk[] {
  return readdirSync(directory).map((name) => {
    const { dev, ino, nlink, size, mtimeMs } = lstatSync(join(directory, name));
    return { inode: `${dev}:${ino}`, links: nlink, bytes: size, mtimeMs };
  });
}

function isInUse(directory: string): boolean {
  try {
    const lock = takePack(directory);
    lock?.release();
    return lock === undefined;
  } catch {
    // Whoever cannot lock it cannot remove it either.
    return true;
  }
}

/** Bytes of disk that are free once these packs are gone. A file that another pack shares stays. */
export function freedBytes(packDir: string, packs: readonly Pick<CachedPack, 'pack'>[]): number {
  const counted = new Map<string, FileOnDisk & { names: number }>();
  for (const { pack } of packs) {
    for (const file of filesOf(join(packDir, pack))) {
      counted.set(file.inode, { ...file, names: (counted.get(file.inode)?.names ?? 0) + 1 });
    }
  }
  return [...counted.values()].reduce(
    (sum, { bytes, links, names }) => sum + (names >= links ? bytes : 0),
    0,
  );
}

/** Removes a pack of the cache. Returns false, and leaves it, while a process holds it. */
export async function removePack(packDir: string, pack: string, hashes: FileHashes): Promise<boolean> {
  const directory = join(packDir, pack);
  const lock = takePack(directory);
  if (lock === undefined) return false;
  try {
    // Without a manifest it is no pack, should the removal be interrupted.
    await rm(join(directory, MANIFEST), { force: true });
    for (const name of readdirSync(directory).filter((each) => !isTextName(each) && each.endsWith('.sida'))) {
      const { fd } = openPackFile(directory, name);
      try {
        await hashes.across(fd, () => unlink(join(directory, name)));
      } finally {
        closeSync(fd);
      }
    }
    await rm(directory, { recursive: true, force: true });
    return true;
  } finally {
    lock.release();
  }
}
