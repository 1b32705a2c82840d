import { closeSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { openModelFile, readModelFile } from '../../../src/files/model-file.js';

const root = mkdtempSync(join(tmpdir(), 'sida-model-file-'));
const model = join(root, 'model');
const at = (name: string) => join(model, name);
const read = (name: string, mostBytes = 100) => readModelFile(model, name, { mostBytes });

beforeEach(() => {
  rmSync(model, { recursive: true, force: true });
  mkdirSync(model);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('a file of a model', () => {
  it('is read whole, also when it is empty', () => {
    writeFileSync(at('config.json'), '{}');
    writeFileSync(at('empty'), '');
    expect(read('config.json', 2)?.toString()).toBe('{}');
    expect(read('empty', 0)?.length).toBe(0);
  });

  it('is undefined when it is missing, or a link to a file that is missing', () => {
    symlinkSync('nothing', at('link'));
    expect(read('config.json')).toBeUndefined();
    expect(read('link')).toBeUndefined();
    expect(openModelFile(join(root, 'no-model'), 'config.json')).toBeUndefined();
  });

  it('may be a link to another file of the directory, and lie in a directory that is a link', () => {
    writeFileSync(at('a'), 'text');
    symlinkSync('a', at('b'));
    symlinkSync(model, join(root, 'linked'));
    expect(read('b')?.toString()).toBe('text');
    expect(readModelFile(join(root, 'linked'), 'b', { mostBytes: 4 })?.toString()).toBe('text');
  });

  it('may be a link from a snapshot of the Hugging Face cache to its blobs, and no further', () => {
    const snapshot = join(root, 'hub', 'snapshots', '1f');
    const blobs = join(root, 'hub', 'blobs');
    mkdirSync(snapshot, { recursive: true });
    mkdirSync(blobs);
    writeFileSync(join(blobs, 'aa'), 'blob');
    writeFileSync(join(root, 'hub', 'secret'), 'secret');
    symlinkSync('../../blobs/aa', join(snapshot, 'config.json'));
    symlinkSync('../../secret', join(snapshot, 'sida.json'));
    expect(readModelFile(snapshot, 'config.json', { mostBytes: 4 })?.toString()).toBe('blob');
    expect(() => readModelFile(snapshot, 'sida.json', { mostBytes: 100 })).toThrow('link out of');
  });

  it('may be such a link from a directory of the snapshot', () => {
    const folder = join(root, 'deep', 'snapshots', '1f', 'UD', 'Q4_K_M');
    mkdirSync(folder, { recursive: true });
    mkdirSync(join(root, 'deep', 'blobs'));
    writeFileSync(join(root, 'deep', 'blobs', 'aa'), 'blob');
    writeFileSync(join(root, 'deep', 'secret'), 'secret');
    symlinkSync('../../../../blobs/aa', join(folder, 'config.json'));
    symlinkSync('../../../../secret', join(folder, 'sida.json'));
    expect(readModelFile(folder, 'config.json', { mostBytes: 4 })?.toString()).toBe('blob');
    expect(() => readModelFile(folder, 'sida.json', { mostBytes: 100 })).toThrow('link out of');
  });

  it.each(['', '.', '..', '../model/a', '/etc/hostname', 'a/b', 'a\\b', 'a\0b', 'x'.repeat(256)])(
    'is not named %j',
    (name) => {
      expect(() => read(name)).toThrow('plain name');
    },
  );

  it.each(['/etc/hostname', '/dev/zero', '../outside', '/proc/self/environ', '..'])(
    'is no link to %s',
    (target) => {
      writeFileSync(join(root, 'outside'), 'outside');
      symlinkSync(target, at('config.json'));
      expect(() => read('config.json')).toThrow(/model\/config\.json: link out of the directory: found \//);
    },
  );

  it('is no link in a circle', () => {
    symlinkSync('b', at('a'));
    symlinkSync('a', at('b'));
    expect(() => read('a')).toThrow('model/a: cannot follow: ELOOP');
  });

  it('is no directory and no socket', async () => {
    mkdirSync(at('directory'));
    const server = createServer().listen(at('socket'));
    await new Promise((resolve) => server.once('listening', resolve));
    for (const name of ['directory', 'socket']) {
      expect(() => read(name)).toThrow(`${name}: expected a regular file, found a ${name}`);
    }
    server.close();
  });

  it('is refused by its size before it is read', () => {
    writeFileSync(at('big'), '');
    truncateSync(at('big'), 1e12);
    const code = 'pack_invalid' as const;
    expect(() => readModelFile(model, 'big', { mostBytes: 1000, code })).toThrow(
      expect.objectContaining({
        code,
        message: expect.stringContaining('big: too large: expected at most 1000 B, found 932 GiB'),
        details: { expected: 1000, found: 1e12 },
      }),
    );
  });

  it('is opened with its size', () => {
    writeFileSync(at('weights'), 'abc');
    const { fd, size } = openModelFile(model, 'weights')!;
    closeSync(fd);
    expect(size).toBe(3);
  });
});
