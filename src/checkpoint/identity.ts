import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { CheckpointInfo } from '../native/addon-types.js';
import type { PackFile } from './manifest.js';

/**
 * Names the weights of a checkpoint on this machine without reading them all. Fine-tunes share config and
 * headers to the byte, so size and modification time of each file count too.
 */
export async function checkpointIdentity(directory: string, info: CheckpointInfo): Promise<string> {
  const hash = createHash('sha256').update(info.fingerprint);
  for (const file of info.files) {
    const { size, mtimeMs } = await stat(join(directory, file.name));
    hash.update(`\n${file.name} ${size} ${mtimeMs}`);
  }
  return hash.digest('hex');
}

/** Names what a pack computes, on any machine: its files' content. */
export function packFingerprint(files: PackFile[]): string {
  const hash = createHash('sha256');
  for (const { name, sha256 } of [...files].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    hash.update(`${name} ${sha256}\n`);
  }
  return hash.digest('hex');
}
