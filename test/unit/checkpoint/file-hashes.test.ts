import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  linkSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { FileHashes, HASHES } from '../../../src/checkpoint/file-hashes.js';

const root = mkdtempSync(join(tmpdir(), 'sida-hashes-'));
const file = join(root, 'weights');
const cache = join(root, 'cache');
afterAll(() => rmSync(root, { recursive: true }));

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');
const content = randomBytes(100_000);

/** The hash of the file and the bytes that were read for it, as of a file that is too large to be read always. */
async function hashed(
  hashes: FileHashes,
  path = file,
  alwaysRead = 0,
): Promise<{ sha256: string; read: number }> {
  const fd = openSync(path, 'r');
  let read = 0;
  try {
    const found = await hashes.of(fd, path, { alwaysRead, onBytes: (bytes) => (read += bytes) });
    return { sha256: found, read };
  } finally {
    closeSync(fd);
  }
}

async function opened<T>(path: string, body: (fd: number) => T | Promise<T>): Promise<T> {
  const fd = openSync(path, 'r');
  try {
    return await body(fd);
  } finally {
    closeSync(fd);
  }
}

beforeAll(async () => {
  writeFileSync(file, content);
  // Only the hash of a file that has settled is kept.
  await delay(2_100);
});

describe('hashes of files', () => {
  beforeEach(() => rmSync(cache, { recursive: true, force: true }));

  it('are read once, and kept for the next process', async () => {
    const first = FileHashes.open(cache);
    expect(await hashed(first)).toEqual({ sha256: sha256(content), read: content.length });
    await first.save();
    expect(statSync(cache).mode & 0o777).toBe(0o700);
    expect(statSync(join(cache, HASHES)).mode & 0o777).toBe(0o600);
    expect(await hashed(FileHashes.open(cache))).toEqual({ sha256: sha256(content), read: 0 });
  });

  it('cover a file whose last read is shorter than the others', async () => {
    const large = join(root, 'large');
    const bytes = randomBytes(13_000_001);
    writeFileSync(large, bytes);
    const hashes = FileHashes.inMemory();
    expect(await hashed(hashes, large)).toEqual({ sha256: sha256(bytes), read: bytes.length });
  });

  it('of small files are read always, since a memory map may change them under the same times', async () => {
    const hashes = FileHashes.open(cache);
    await hashed(hashes);
    expect(await hashed(hashes)).toEqual({ sha256: sha256(content), read: 0 });
    expect((await hashed(hashes, file, content.length)).read).toBe(content.length);
    const fd = openSync(file, 'r');
    // What hashes.json says of a small file is not believed.
    hashes.record(fd, sha256(Buffer.from('other')));
    expect(await hashes.of(fd, file)).toBe(sha256(content));
    closeSync(fd);
  });

  it('are not kept for a file that has just been written', async () => {
    const fresh = join(root, 'fresh');
    writeFileSync(fresh, content);
    const hashes = FileHashes.open(cache);
    await hashed(hashes, fresh);
    expect((await hashed(hashes, fresh)).read).toBe(content.length);
  });

  it('are read again where size and modification time are equal but the content is not', async () => {
    const swapped = join(root, 'swapped');
    writeFileSync(swapped, content);
    const { atime, mtime } = statSync(swapped);
    const hashes = FileHashes.open(cache);
    await opened(swapped, (fd) => hashes.record(fd, sha256(content)));
    expect((await hashed(hashes, swapped)).read).toBe(0);
    await delay(20);
    const other = Buffer.from(content);
    other[5]! ^= 1;
    writeFileSync(swapped, other);
    utimesSync(swapped, atime, mtime);
    expect((await hashed(hashes, swapped)).sha256).toBe(sha256(other));
    // A file that was moved into its place has another inode.
    const moved = join(root, 'moved');
    writeFileSync(moved, content);
    utimesSync(moved, atime, mtime);
    renameSync(moved, swapped);
    expect((await hashed(hashes, swapped)).sha256).toBe(sha256(content));
  });

  it('stay known across a link, but not across a write beside it', async () => {
    const linked = join(root, 'linked');
    writeFileSync(linked, content);
    const hashes = FileHashes.open(cache);
    const link = join(root, 'link');
    await opened(linked, async (fd) => {
      hashes.record(fd, sha256(content));
      await hashes.across(fd, async () => linkSync(linked, link));
      expect(hashes.known(fd)).toBe(sha256(content));
      await hashes.across(fd, async () => unlinkSync(link));
      expect(hashes.known(fd)).toBe(sha256(content));
      await delay(20);
      await hashes.across(fd, async () => writeFileSync(linked, content));
      expect(hashes.known(fd)).toBeUndefined();
    });
  });

  it.each([
    ['no JSON', () => '{'],
    ['another version', (text: string) => text.replace('"version":1', '"version":2')],
    ['a hash that was changed', (text: string) => text.replace(sha256(content), 'a'.repeat(64))],
    ['more than its limit', (text: string) => text + ' '.repeat(1 << 20)],
  ])('are read again when the cache is %s', async (_, damage) => {
    const first = FileHashes.open(cache);
    await hashed(first);
    await first.save();
    const path = join(cache, HASHES);
    writeFileSync(path, damage(readFileSync(path, 'utf8')));
    const second = FileHashes.open(cache);
    expect(await hashed(second)).toEqual({ sha256: sha256(content), read: content.length });
    await second.save();
    expect((await hashed(FileHashes.open(cache))).read).toBe(0);
  });

  it('are bounded in number, and the newest stay', async () => {
    const many = join(root, 'many');
    writeFileSync(many, content);
    for (let round = 0; round < 2; round++) {
      const hashes = FileHashes.open(cache);
      for (let i = 0; i < 1_500; i++) {
        utimesSync(many, new Date(), new Date(1e9 * (round + 1) + i * 1_000));
        await opened(many, (fd) => hashes.record(fd, sha256(Buffer.from(`${round} ${i}`))));
      }
      await hashes.save();
    }
    const { files } = JSON.parse(readFileSync(join(cache, HASHES), 'utf8'));
    expect(Object.keys(files)).toHaveLength(2_000);
    expect(statSync(join(cache, HASHES)).size).toBeLessThan(1 << 20);
    const last = await opened(many, (fd) => FileHashes.open(cache).known(fd));
    expect(last).toBe(sha256(Buffer.from('1 1499')));
  });

  it('do not fail where they cannot be written', async () => {
    writeFileSync(cache, 'a file');
    const hashes = FileHashes.open(cache);
    await hashed(hashes);
    await hashes.save();
    expect(readFileSync(cache, 'utf8')).toBe('a file');
  });
});
