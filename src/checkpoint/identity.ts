import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { CheckpointInfo } from '../native/addon-types.js';
import type { PackFile } from './manifest.js';

/**
 * Identifies the weights of a checkpoint on this machine without reading them. Fine-tunes may have the same config
 * and headers, so the hash also covers the size and the modification time of each file.
 */
export async function checkpointIdentity(directory: string, info: CheckpointInfo): Promise<string> {
  const hash = createHash('sha256').update(info.fingerprint);
  for (const file of info.files) {
    const { size, mtimeMs } = await stat(join(directory, file.name));
    hash.update(`\n${file.name} ${size} ${mtimeMs}`);
  }
  return hash.digest('hex');
}

/** Identifies the content of a pack's files. It is the same on every machine. */
export function packFingerprint(files: PackFile[]): string {
  const hash = createHash('sha256');
  for (const { name, sha256 } of [...files].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    hash.update(`${name} ${sha256}\n`);
  }
  return hash.digest('hex');
}
