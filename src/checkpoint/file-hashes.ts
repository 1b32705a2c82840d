/** Remembers the sha256 of large files, so that a start reads a file again only where it may have changed. */
import { createHash } from 'node:crypto';
import { type BigIntStats, fstatSync, read } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { SidaError } from '../errors.js';
import { makeDirectory } from '../files/make-directory.js';
import { readModelFile } from '../files/model-file.js';
import { writeWholeFile } from '../files/whole-file.js';
import { parseJson } from '../text/one-line.js';

export const HASHES = 'hashes.json';
/** The entries that were used last are kept. They take about 200 bytes each. */
const MOST_ENTRIES = 2_000;
const MOST_BYTES = 1 << 20;
/** A file that changed within this time may change again under the same time stamp, so its hash is not kept. */
const SETTLED_NS = 2_000_000_000n;

/** Files up to this size are read at every start, larger ones only where they may have changed since. */
export const READ_AT_START_BYTES = 512 << 20;

const READ_BYTES = 4 << 20;
const readAt = promisify(read);

interface Entry {
  sha256: string;
  usedMs: number;
}

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const fileSchema = z.object({
  version: z.literal(1),
  /** Of `files`, so that a damaged hash is not believed. */
  sum: sha256,
  files: z.record(z.string(), z.object({ sha256, usedMs: z.number() })),
});

export interface HashOptions {
  /** Called with the bytes of each chunk that is read. */
  onBytes?: (bytes: number) => void;
}

interface OfOptions extends HashOptions {
  alwaysRead?: number;
}

export class FileHashes {
  readonly #directory: string | undefined;
  readonly #entries: Map<string, Entry>;
  #changed = false;

  private constructor(directory: string | undefined, entries: Map<string, Entry>) {
    this.#directory = directory;
    this.#entries = entries;
  }

  /** The hashes kept in `directory`; none if the file is missing or damaged. */
  static open(directory: string): FileHashes {
    return new FileHashes(directory, readEntries(directory));
  }

  /** Hashes that only this process remembers. */
  static inMemory(): FileHashes {
    return new FileHashes(undefined, new Map());
  }

  /**
   * The sha256 of an open file, which is read unless its hash is known. A file of up to `alwaysRead` bytes is read in
   * any case: writes through a memory map may leave its size and times as they are for a while. Throws as read().
   */
  async of(
    fd: number,
    path: string,
    { alwaysRead = READ_AT_START_BYTES, ...options }: OfOptions = {},
  ): Promise<string> {
    const known = fstatSync(fd).size <= alwaysRead ? undefined : this.known(fd);
    return known ?? this.read(fd, path, options);
  }

  /** Reads an open file and keeps its sha256. Throws io_error when the file changes meanwhile. */
  async read(fd: number, path: string, { onBytes }: HashOptions = {}): Promise<string> {
    const startedNs = BigInt(Date.now()) * 1_000_000n;
    const before = statusOf(fd);
    const found = await hashOf(fd, onBytes);
    const after = statusOf(fd);
    if (keyOf(after) !== keyOf(before)) {
      throw new SidaError({ code: 'io_error', message: `${path} changed while it was read; start again` });
    }
    if (startedNs - before.ctimeNs > SETTLED_NS) this.#keep(after, found);
    return found;
  }

  /** The hash of an open file if it is known and nothing about the file has changed since. */
  known(fd: number): string | undefined {
    const entry = this.#entries.get(keyOf(statusOf(fd)));
    if (entry === undefined) return undefined;
    entry.usedMs = Date.now();
    this.#changed = true;
    return entry.sha256;
  }

  /** Keeps the hash of a file that only this process can have written. */
  record(fd: number, found: string): void {
    this.#keep(statusOf(fd), found);
  }

  /** Runs `change`, which links or unlinks a file without writing to it. A hash that was known stays known. */
  async across(fd: number, change: () => Promise<void>): Promise<void> {
    const found = this.known(fd);
    const before = statusOf(fd);
    await change();
    const after = statusOf(fd);
    if (found !== undefined && after.mtimeNs === before.mtimeNs && after.size === before.size) {
      this.#keep(after, found);
    }
  }

  /** Writes the hashes. A directory that cannot be written only means that files are read again. */
  async save(): Promise<void> {
    const directory = this.#directory;
    if (directory === undefined || !this.#changed) return;
    // Another process may have saved meanwhile.
    const all = new Map([...readEntries(directory), ...this.#entries]);
    const newest = [...all].sort(([, a], [, b]) => b.usedMs - a.usedMs).slice(0, MOST_ENTRIES);
    const files = Object.fromEntries(newest.reverse());
    const content = JSON.stringify({ version: 1, sum: sumOf(files), files });
    try {
      makeDirectory(directory, 0o700);
      await writeWholeFile(join(directory, HASHES), content, { mode: 0o600, durable: false, shared: true });
      this.#changed = false;
    } catch {
      // The files are read again at the next start.
    }
  }

  #keep(status: BigIntStats, found: string): void {
    this.#entries.set(keyOf(status), { sha256: found, usedMs: Date.now() });
    this.#changed = true;
  }
}

/** Whatever a write, a copy or a replacement changes. */
function keyOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(':');
}

function statusOf(fd: number): BigIntStats {
  return fstatSync(fd, { bigint: true });
}

async function hashOf(fd: number, onBytes: HashOptions['onBytes']): Promise<string> {
  const hash = createHash('sha256');
  const buffers = [Buffer.allocUnsafeSlow(READ_BYTES), Buffer.allocUnsafeSlow(READ_BYTES)];
  let reading = readInto(fd, buffers[0]!, 0);
  for (let at = 0, next = 1; ; next = 1 - next) {
    const chunk = await reading;
    if (chunk.length === 0) return hash.digest('hex');
    onBytes?.(chunk.length);
    at += chunk.length;
    // The disk fills the other buffer while this one is hashed. What may throw comes before, as the caller then closes
    // the file.
    reading = readInto(fd, buffers[next]!, at);
    hash.update(chunk);
  }
}

async function readInto(fd: number, buffer: Buffer, position: number): Promise<Buffer> {
  const { bytesRead } = await readAt(fd, buffer, 0, buffer.length, position);
  return buffer.subarray(0, bytesRead);
}

function readEntries(directory: string): Map<string, Entry> {
  try {
    const json = readModelFile(directory, HASHES, { mostBytes: MOST_BYTES });
    if (json === undefined) return new Map();
    const { sum, files } = parseJson(json, fileSchema);
    return new Map(sum === sumOf(files) ? Object.entries(files) : []);
  } catch {
    return new Map();
  }
}

function sumOf(files: Record<string, Entry>): string {
  return createHash('sha256').update(JSON.stringify(files)).digest('hex');
}
