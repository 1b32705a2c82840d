/** Downloads a model into the cache of Hugging Face's tools. */
import { existsSync, statSync } from 'node:fs';
import { mkdir, rm, symlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { withLock } from '../checkpoint/lock-file.js';
import { SidaError } from '../errors.js';
import { requireFree } from '../files/disk-space.js';
import { writeWholeFile } from '../files/whole-file.js';
import { formatBytes } from '../text/bytes.js';
import { locksDirectory, repoDirectory } from './cache.js';
import { download } from './download.js';
import { Hub, type HubFile } from './hub-client.js';
import { type HubName, writtenName } from './hub-name.js';
import { chooseFiles, sizeOf } from './model-files.js';

interface PullOptions {
  onProgress: (done: number, total: number) => void;
  /** Called with a line to show. */
  say: (line: string) => void;
  /** Aborting ends the download at once, and its reason is thrown. What has come is kept. */
  signal?: AbortSignal;
}

/** Resolves with the path that the engine opens. */
export async function pull(
  name: HubName,
  { onProgress, say, signal = new AbortController().signal }: PullOptions,
): Promise<string> {
  const { repo } = name;
  const hub = new Hub({ onWait: say, signal });
  const { commit, files } = await hub.repository(repo);
  const model = chooseFiles(name, files);
  if (model.entry.includes('/')) {
    // The engine follows links to blobs only from the snapshot's own directory.
    const message = `${writtenName(name)}: ${model.entry} lies in a subdirectory of its repository, which sida does not serve`;
    throw new SidaError({ code: 'cannot_run', message });
  }
  const directory = repoDirectory(repo);
  const blobs = join(directory, 'blobs');
  const snapshot = join(directory, 'snapshots', commit);
  await mkdir(blobs, { recursive: true });
  const total = sizeOf(model);
  const missing = model.files.reduce((sum, file) => sum + file.size - bytesThere(blobs, file), 0);
  requireFree(blobs, missing, 'the download', 'set HF_HUB_CACHE to a directory on another disk');
  const count = `${model.files.length} ${model.files.length === 1 ? 'file' : 'files'}`;
  say(
    `${writtenName(name)}: ${count}, ${formatBytes(total)}, ${formatBytes(missing)} to download from ${hub.host}`,
  );
  let before = 0;
  for (const file of model.files) {
    const path = join(blobs, file.blob);
    const lock = join(locksDirectory(repo), `${file.blob}.lock`);
    await withLock(
      lock,
      async () => {
        if (existsSync(path)) return;
        const ask = (begin: number) => hub.ask(repo, commit, file.path, begin);
        const onBytes = (done: number) => {
          signal.throwIfAborted();
          onProgress(before + done, total);
        };
        await download(hub, { file, ask, path, onBytes });
      },
      {
        signal,
        onWait: ({ seconds }) => say(`Waits for another download of ${file.path}, for ${seconds} s`),
      },
    );
    before += file.size;
    onProgress(before, total);
    await link(path, join(snapshot, file.path));
  }
  await mkdir(join(directory, 'refs'), { recursive: true });
  await writeWholeFile(join(directory, 'refs', 'main'), commit, { shared: true });
  return join(snapshot, model.entry);
}

function bytesThere(blobs: string, { blob, size }: HubFile): number {
  if (existsSync(join(blobs, blob))) return size;
  return Math.min(size, statSync(join(blobs, `${blob}.incomplete`), { throwIfNoEntry: false })?.size ?? 0);
}

async function link(blob: string, path: string): Promise<void> {
  if (existsSync(path)) return;
  await mkdir(dirname(path), { recursive: true });
  await rm(path, { force: true });
  await symlink(relative(dirname(path), blob), path);
}
