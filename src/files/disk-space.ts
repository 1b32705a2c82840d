/** Checks that files of known sizes find room on their disks before they are written. */
import { existsSync, realpathSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SidaError } from '../errors.js';
import { formatBytes, formatLeast } from '../text/bytes.js';

/** Throws io_error when the directory's disk has less free than `needed` bytes. Returns the free bytes. */
export function requireFree(directory: string, needed: number, what: string, hint: string): number {
  const { bavail, bsize } = statfsSync(directory);
  const free = bavail * bsize;
  if (needed <= free) return free;
  throw new SidaError({
    code: 'io_error',
    message: `${directory}: ${what} needs ${formatLeast(needed)}, and the disk has ${formatBytes(free)} free; make room, or ${hint}`,
    details: { needed_bytes: needed, free_bytes: free },
  });
}

/**
 * Bytes that the files of a pack still need, without what is there of them already, and those free on the directory's
 * disk. Throws io_error when a disk has less free than its files need. A file may be a link to another disk.
 */
export function requireSpace(
  directory: string,
  files: readonly { name: string; bytes: number }[],
): { bytes: number; free: number } {
  const disks = new Map<number, { place: string; bytes: number }>();
  for (const { name, bytes } of files) {
    const path = join(directory, name);
    const there = existsSync(path);
    const place = there ? dirname(realpathSync.native(path)) : directory;
    const missing = Math.max(0, bytes - (there ? statSync(path).size : 0));
    const { dev } = statSync(place);
    disks.set(dev, { place, bytes: (disks.get(dev)?.bytes ?? 0) + missing });
  }
  const hint = 'set --pack-dir or --out to a directory on another disk';
  for (const { place, bytes } of disks.values()) requireFree(place, bytes, 'the pack', hint);
  const bytes = [...disks.values()].reduce((sum, disk) => sum + disk.bytes, 0);
  return { bytes, free: requireFree(directory, 0, '', '') };
}
