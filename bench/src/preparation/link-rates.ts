/** Speed of the link below the device: the disk, read past the page cache as the transfer thread reads it. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { loadAddon } from '../../../dist/native/addon.js';

const SEQUENTIAL_BYTES = 256 << 20;
const BLOCK_SECONDS = 0.5;
const PAGE = 4096;

export interface DiskRates {
  /** Bytes per second, read in a row. */
  sequential: number;
  /** Bytes per second, expert by expert at random places. */
  experts: number;
}

export function diskRates(pack: string, slotBytes: number): DiskRates {
  const file = join(pack, 'experts.sida');
  return {
    sequential: loadAddon().measureDiskRead(file, SEQUENTIAL_BYTES),
    experts: randomBlocks(file, slotBytes),
  };
}

/** A view whose address is a multiple of a page, as O_DIRECT needs it. It is found by trying. */
function alignedBlock(file: number, bytes: number): Uint8Array {
  const room = new ArrayBuffer(bytes + PAGE);
  for (let offset = 0; offset < PAGE; offset += 8) {
    const block = new Uint8Array(room, offset, bytes);
    try {
      readSync(file, block, 0, bytes, 0);
      return block;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EINVAL') throw error;
    }
  }
  throw new Error('No aligned buffer found');
}

function randomBlocks(path: string, bytes: number): number {
  const file = openSync(path, constants.O_RDONLY | constants.O_DIRECT);
  try {
    const block = alignedBlock(file, bytes);
    const blocks = Math.floor(fstatSync(file).size / bytes);
    const begin = performance.now();
    let [read, seconds] = [0, 0];
    for (let at = 1; seconds < BLOCK_SECONDS; seconds = (performance.now() - begin) / 1000) {
      at = (at * 48271) % 2147483647;
      read += readSync(file, block, 0, bytes, (at % blocks) * bytes);
    }
    return read / seconds;
  } finally {
    closeSync(file);
  }
}
