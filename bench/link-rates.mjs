// What the link below the device gives: the disk, read as the transfer thread reads it, one request at a time.
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { loadAddon } from '../dist/native/addon.js';

const SEQUENTIAL_BYTES = 256 << 20;
const BLOCK_SECONDS = 1;
const PAGE = 4096;

/** A view whose address is a multiple of a page, which O_DIRECT wants: found by trying. */
function alignedBlock(file, bytes) {
  const room = new ArrayBuffer(bytes + PAGE);
  for (let offset = 0; offset < PAGE; offset += 8) {
    const block = new Uint8Array(room, offset, bytes);
    try {
      readSync(file, block, 0, bytes, 0);
      return block;
    } catch (error) {
      if (error.code !== 'EINVAL') throw error;
    }
  }
  throw new Error('No aligned buffer found');
}

/** Bytes per second of blocks at random places, past the page cache. */
function randomBlocks(path, bytes) {
  const file = openSync(path, constants.O_RDONLY | constants.O_DIRECT);
  try {
    const block = alignedBlock(file, bytes);
    const blocks = Math.floor(fstatSync(file).size / bytes);
    const begin = performance.now();
    let read = 0;
    let seconds = 0;
    for (let at = 1; seconds < BLOCK_SECONDS; seconds = (performance.now() - begin) / 1000) {
      at = (at * 48271) % 2147483647;
      read += readSync(file, block, 0, bytes, (at % blocks) * bytes);
    }
    return read / seconds;
  } finally {
    closeSync(file);
  }
}

/** Bytes per second of a pack's experts: read in a row, and expert by expert. */
export function diskRates(pack, slotBytes) {
  const file = join(pack, 'experts.sida');
  return {
    sequential: loadAddon().measureDiskRead(file, SEQUENTIAL_BYTES),
    experts: randomBlocks(file, slotBytes),
  };
}
