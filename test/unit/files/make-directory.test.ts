import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makeDirectory } from '../../../src/files/make-directory.js';

const folder = mkdtempSync(join(tmpdir(), 'sida-directory-'));
afterAll(() => rmSync(folder, { recursive: true }));

it('makes missing parents for their owner alone, and keeps what is there', () => {
  const path = join(folder, 'a', 'b', 'c');
  for (const _ of [1, 2]) makeDirectory(path, 0o700);
  for (const made of [path, join(folder, 'a')]) expect(statSync(made).mode & 0o777).toBe(0o700);
});

it('refuses a path that cannot be a directory', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  symlinkSync(join(folder, 'absent'), join(folder, 'link'));
  expect(() => makeDirectory(file)).toThrow('EEXIST');
  expect(() => makeDirectory(join(folder, 'link'))).toThrow('EEXIST');
  expect(() => makeDirectory(join(file, 'below'))).toThrow('ENOTDIR');
});

it.skipIf(process.platform !== 'linux')('ends where the system takes no directories', () => {
  expect(() => makeDirectory('/proc/absent/a/b')).toThrow(
    '/proc/absent: cannot be made: /proc takes no directories',
  );
});
