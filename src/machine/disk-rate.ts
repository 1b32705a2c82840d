/** How fast the disk of a directory reads. */
import { randomBytes } from 'node:crypto';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDirectory } from '../files/make-directory.js';
import { loadAddon } from '../native/addon.js';

const TEST_BYTES = 64 << 20;
const PAGE = 4096;
/** The engine reads larger experts in pieces of about this size. */
const LONGEST_READ = 1 << 20;
const SECONDS = 0.5;

/**
 * Bytes per second, past the page cache, of reads as long as those that load experts of `expertBytes`. Writes a file to
 * `directory` for the time of the measurement.
 */
export async function measureDiskRate(directory: string, expertBytes = LONGEST_READ): Promise<number> {
  const path = join(directory, `.doctor-${process.pid}-${randomBytes(4).toString('hex')}`);
  try {
    makeDirectory(directory, 0o700);
    const file = await open(path, 'wx');
    try {
      // The bytes are random because a compressing file system would not read zeros from the disk.
      const piece = randomBytes(4 << 20);
      for (let written = 0; written < TEST_BYTES; written += piece.length) await file.write(piece);
      await file.sync();
    } finally {
      await file.close();
    }
    const readBytes = Math.ceil(Math.min(expertBytes, LONGEST_READ) / PAGE) * PAGE;
    return loadAddon().measureDiskSpeed(path, readBytes, SECONDS).bytesPerSecond;
  } finally {
    await rm(path, { force: true }).catch(() => undefined);
  }
}
