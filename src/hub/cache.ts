/** Models in the cache that Hugging Face's own tools use: `models--ORG--NAME` with blobs, snapshots and refs. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { readdir, realpath, rm, rmdir } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { getHFHubCachePath, getRepoFolderName } from '@huggingface/hub';
import { z } from 'zod';
import { indexOf, WEIGHTS } from '../checkpoint/config-plan.js';
import { isMissing, SidaError } from '../errors.js';
import { type HubName, writtenName } from './hub-name.js';
import { chooseFiles, type ModelFiles, modelsAmong, type RepoFile, sizeOf } from './model-files.js';

export interface CachedModel extends ModelFiles {
  /** As commands take it. */
  name: string;
  /** What the engine opens. */
  path: string;
  bytes: number;
  /** When the newest file was written. */
  modified: Date;
}

const PREFIX = 'models--';
const indexSchema = z.object({ weight_map: z.record(z.string(), z.string()) });

export function cacheDirectory(): string {
  return getHFHubCachePath();
}

/** The directory of a repository, which may not exist. */
export function repoDirectory(repo: string): string {
  return join(cacheDirectory(), getRepoFolderName({ type: 'model', name: repo }));
}

/** Where the locks of downloads lie, as Hugging Face's tools place them. */
export function locksDirectory(repo: string): string {
  return join(cacheDirectory(), '.locks', basename(repoDirectory(repo)));
}

/** Undefined when a file of the model is missing. Throws invalid_request for a name that leaves a choice. */
export function cachedModel(name: HubName): CachedModel | undefined {
  const snapshot = currentSnapshot(name.repo);
  if (snapshot === undefined) return undefined;
  try {
    const model = cached(name.repo, snapshot, chooseFiles(name, filesBelow(snapshot)));
    return isComplete(snapshot, model) ? model : undefined;
  } catch (error) {
    if (error instanceof SidaError && error.code === 'model_not_found') return undefined;
    throw error;
  }
}

/** Every complete model of the cache. */
export function cachedModels(): CachedModel[] {
  const directory = cacheDirectory();
  if (!existsSync(directory)) return [];
  const repos = readdirSync(directory)
    .filter((folder) => folder.startsWith(PREFIX))
    .map((folder) => folder.slice(PREFIX.length).replaceAll('--', '/'));
  return repos.sort().flatMap((repo) => {
    const snapshot = currentSnapshot(repo);
    if (snapshot === undefined) return [];
    const models = modelsAmong(filesBelow(snapshot)).map((model) => cached(repo, snapshot, model));
    return models.filter((model) => isComplete(snapshot, model));
  });
}

/** Bytes of everything that the cache holds of a repository, unfinished downloads too. Undefined without any. */
export function cachedBytes(repo: string): number | undefined {
  const directory = repoDirectory(repo);
  if (!existsSync(directory)) return undefined;
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

export async function removeRepo(repo: string): Promise<void> {
  await rm(repoDirectory(repo), { recursive: true });
  await rm(locksDirectory(repo), { recursive: true, force: true });
}

/** Removes the files of one model, and the repository with its last model. */
export async function removeModel(repo: string, model: CachedModel): Promise<void> {
  const directory = repoDirectory(repo);
  const snapshot = currentSnapshot(repo)!;
  for (const { path } of model.files) {
    const link = join(snapshot, path);
    const blob = await realpath(link);
    await rm(link);
    // The directories of the path go with their last file.
    for (let parent = dirname(link); parent !== snapshot; parent = dirname(parent)) {
      if ((await readdir(parent)).length > 0) break;
      await rmdir(parent);
    }
    if (!(await linkedBlobs(directory)).has(blob)) await rm(blob, { force: true });
  }
  if (filesBelow(snapshot).length === 0) await removeRepo(repo);
}

async function linkedBlobs(directory: string): Promise<Set<string>> {
  const files = filesBelow(join(directory, 'snapshots')).map(({ path }) =>
    join(directory, 'snapshots', path),
  );
  return new Set(await Promise.all(files.map((path) => realpath(path))));
}

function cached(repo: string, snapshot: string, model: ModelFiles): CachedModel {
  const times = model.files.map(({ path }) => statSync(join(snapshot, path)).mtimeMs);
  return {
    ...model,
    name: writtenName({ repo, choice: model.choice }),
    path: join(snapshot, model.entry),
    bytes: sizeOf(model),
    modified: new Date(Math.max(...times)),
  };
}

/** Whether every shard that the index of a checkpoint names is there, and the index itself. */
function isComplete(snapshot: string, { format, files }: ModelFiles): boolean {
  if (format === 'gguf' || files.some(({ path }) => path === WEIGHTS[format])) return true;
  try {
    const index = indexSchema.parse(
      JSON.parse(readFileSync(join(snapshot, indexOf(WEIGHTS[format])), 'utf8')),
    );
    const there = new Set(files.map(({ path }) => path));
    return Object.values(index.weight_map).every((shard) => there.has(shard));
  } catch {
    return false;
  }
}

function currentSnapshot(repo: string): string | undefined {
  const directory = repoDirectory(repo);
  try {
    const commit = readFileSync(join(directory, 'refs', 'main'), 'utf8').trim();
    const snapshot = join(directory, 'snapshots', basename(commit));
    return statSync(snapshot).isDirectory() ? snapshot : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** The files below a directory. A link to nothing is none. */
function filesBelow(directory: string): RepoFile[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true }).flatMap((entry) => {
    const path = join(entry.parentPath, entry.name);
    const status = statSync(path, { throwIfNoEntry: false });
    return status?.isFile() ? [{ path: relative(directory, path), size: status.size }] : [];
  });
}
