/** Reads what a checkpoint's identity covers: the content of its weights, and its other files. */
import { closeSync } from 'node:fs';
import { join } from 'node:path';
import { SidaError } from '../errors.js';
import { openRegularFile } from '../files/regular-file.js';
import type { CheckpointInfo } from '../native/addon-types.js';
import type { FileHashes } from './file-hashes.js';
import { readTexts, sha256Of, type Texts } from './texts.js';

export interface CheckpointSource {
  /** See ModelIdentity. */
  weights: string;
  texts: Texts;
}

interface ReadOptions {
  hashes: FileHashes;
  signal?: AbortSignal;
  onProgress?: (progress: { phase: 'hash'; done: number; total: number }) => void;
}

/** Hashes every weight file whose hash is not known. Throws checkpoint_invalid for a file that is missing by now. */
export async function readSource(
  directory: string,
  info: Pick<CheckpointInfo, 'files'>,
  { hashes, signal, onProgress }: ReadOptions,
): Promise<CheckpointSource> {
  const texts = readTexts(directory);
  const config = texts.get('config.json');
  if (config === undefined) throw missing(join(directory, 'config.json'));
  const contents: string[] = [];
  const total = info.files.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const onBytes = (bytes: number) => {
    done += bytes;
    onProgress?.({ phase: 'hash', done: Math.min(done, total), total });
  };
  for (const { name } of info.files) {
    // The addon has found the file inside of the directory, or in the cache that the directory links to.
    const path = join(directory, name);
    const { fd } = openRegularFile(path, { code: 'checkpoint_invalid' });
    try {
      contents.push(await hashes.of(fd, path, { onBytes, ...(signal && { signal }) }));
    } finally {
      closeSync(fd);
    }
  }
  // A file's name says nothing that its header does not say.
  return { weights: sha256Of([sha256Of(config), ...contents.sort()].join('\n')), texts };
}

function missing(path: string): SidaError {
  return new SidaError({ code: 'checkpoint_invalid', message: `${path}: missing` });
}
