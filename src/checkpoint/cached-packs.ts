/** The packs of a cache: what they are, and whether they still serve their checkpoint. */

import { accessSync, constants, existsSync, lstatSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { isMissing, SidaError } from '../errors.js';
import { readJsonFile } from '../files/json-file.js';
import { loadAddon } from '../native/addon.js';
import { causeOf } from '../text/system-error.js';
import { isRemoved, unfinishedPack } from './cache-names.js';
import { readSource } from './checkpoint-source.js';
import type { FileHashes } from './file-hashes.js';
import { isGgufPath } from './gguf/gguf-path.js';
import { differingParts, modelIdentity } from './identity.js';
import { MANIFEST, readManifest } from './manifest.js';
import { isInUse, readUse } from './pack-use.js';
import { sha256Of } from './texts.js';
import { formatName } from './weight-format.js';

/**
 * - current: the checkpoint is there, and the pack is what it would be packed to.
 * - changed: the checkpoint has other content by now.
 * - gone: the checkpoint is not there, and the directory that held it is.
 * - unknown: no server has recorded which checkpoint it serves, or that one cannot be read now: a disk may be away.
 * - unreadable: a pack that was made by another version, or whose manifest is damaged.
 * - unfinished: a conversion that has not ended.
 * - removed: a removal that has not ended.
 * - no_pack: anything else. It is never removed.
 */
export type SourceState =
  | 'current'
  | 'changed'
  | 'gone'
  | 'unknown'
  | 'unreadable'
  | 'unfinished'
  | 'removed'
  | 'no_pack';

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
  /** Why it, or its checkpoint, cannot be read. */
  fault: string | null;
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

async function describePack(packDir: string, name: string, options: ListOptions): Promise<CachedPack> {
  const directory = join(packDir, name);
  const entry: CachedPack = {
    pack: name,
    model: null,
    experts: null,
    dense: null,
    bytes: 0,
    madeMs: 0,
    usedMs: null,
    source: null,
    state: 'no_pack',
    changed: [],
    inUse: false,
    fault: null,
  };
  try {
    const files = filesOf(directory);
    entry.bytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
    entry.madeMs = changedMs(directory);
    if (unfinishedPack(name) !== undefined) return { ...entry, state: 'unfinished' };
    if (isRemoved(name)) return { ...entry, state: 'removed', inUse: isInUse(directory) };
    if (!hasPackManifest(directory)) return entry;
    entry.inUse = isInUse(directory);
    const manifest = await readManifest(directory).catch((error: Error) => error.message);
    if (typeof manifest === 'string') return { ...entry, state: 'unreadable', fault: manifest };
    const use = readUse(directory);
    const identity = modelIdentity(manifest.source.weights, manifest.files);
    return {
      ...entry,
      model: manifest.source.name,
      experts: formatName(manifest.experts),
      dense: formatName(manifest.dense),
      madeMs: lstatSync(join(directory, MANIFEST)).mtimeMs,
      usedMs: use?.usedMs ?? null,
      source: use?.source ?? null,
      ...(use === undefined ? { state: 'unknown' } : await sourceState(use.source, identity, options)),
    };
  } catch (error) {
    // One directory that cannot be read says nothing about the others.
    return { ...entry, state: 'no_pack', fault: (error as Error).message };
  }
}

const anyPackSchema = z.object({ format: z.literal('sida-pack'), version: z.number() });

/** Whether the directory holds a pack, also one of a version that this program cannot open. */
export function hasPackManifest(directory: string): boolean {
  try {
    return readJsonFile(directory, MANIFEST, anyPackSchema, { code: 'pack_invalid' }) !== undefined;
  } catch (error) {
    if (error instanceof SidaError && error.code === 'pack_invalid') return false;
    throw error;
  }
}

type Identity = ReturnType<typeof modelIdentity>;
type Source = Pick<CachedPack, 'state' | 'changed' | 'fault'>;

async function sourceState(source: string, packed: Identity, options: ListOptions): Promise<Source> {
  const unknown = (fault: string): Source => ({ state: 'unknown', changed: [], fault });
  try {
    if (isGgufPath(source)) {
      accessSync(source, constants.R_OK);
    } else {
      if (readdirSync(source).length === 0) return unknown(`${source} is empty; a disk may not be mounted`);
      for (const { path } of filesOf(source)) accessSync(path, constants.R_OK);
    }
  } catch (error) {
    const gone = isMissing(error) && !existsSync(source) && existsSync(dirname(source));
    if (gone) return { state: 'gone', changed: [], fault: null };
    return unknown(`${(error as NodeJS.ErrnoException).path ?? source}: ${causeOf(error)}`);
  }
  try {
    const { weights, texts } = await readSource(source, loadAddon().inspectCheckpoint(source), options);
    const files = [...texts].map(([name, bytes]) => ({ name, sha256: sha256Of(bytes) }));
    const changed = differingParts(packed, modelIdentity(weights, files));
    return { state: changed.length > 0 ? 'changed' : 'current', changed, fault: null };
  } catch (error) {
    const { code, message } = SidaError.from(error);
    // It is no checkpoint any more, or a damaged one.
    if (code === 'checkpoint_invalid') return { state: 'changed', changed: ['weights'], fault: message };
    return unknown(message);
  }
}

interface FileOnDisk {
  path: string;
  inode: string;
  links: number;
  bytes: number;
  mtimeMs: number;
}

function filesOf(directory: string): FileOnDisk[] {
  return readdirSync(directory).flatMap((name) => {
    const path = join(directory, name);
    // Files come and go while a server uses the pack.
    const status = lstatSync(path, { throwIfNoEntry: false });
    if (status === undefined) return [];
    const { dev, ino, nlink, size, mtimeMs } = status;
    return [{ path, inode: `${dev}:${ino}`, links: nlink, bytes: size, mtimeMs }];
  });
}

/** When the directory or a file in it was last written to. */
export function changedMs(directory: string): number {
  return Math.max(lstatSync(directory).mtimeMs, ...filesOf(directory).map(({ mtimeMs }) => mtimeMs));
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
