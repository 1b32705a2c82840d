// The inputs that are kept for each fuzzer: one archive a reader, native/fuzz/corpus/READER.tar, which the native tests
// replay. Fuzzers work on folders, so an archive is unpacked into build/ and packed again when its inputs changed.
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';

export const ARCHIVES = 'native/fuzz/corpus';
const UNPACKED = 'build/fuzz/kept';

export const archiveOf = (reader) => `${ARCHIVES}/${reader}.tar`;

/** The folder that a reader's archive is unpacked into. */
export const keptFolder = (reader) => join(UNPACKED, reader);

function tar(args, input) {
  const { status, stderr, error } = spawnSync('tar', args, { input, encoding: 'utf8' });
  if (status !== 0) throw new Error(`tar ${args[0]} failed: ${error?.message ?? stderr.trim()}`);
}

/** Unpacks a reader's archive; the folder then holds the archive's files and no others. */
export function unpack(reader) {
  const folder = keptFolder(reader);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  if (existsSync(archiveOf(reader))) tar(['-xf', archiveOf(reader), '-C', folder]);
  return folder;
}

/** Packs the folder of a reader: the same files make the same archive, so that a change shows in git as one. */
export function pack(reader) {
  const folder = keptFolder(reader);
  const files = readdirSync(folder).sort();
  if (files.length === 0) throw new Error(`No inputs of ${reader} in ${folder}.`);
  const sameBytes = ['--owner=0', '--group=0', '--numeric-owner', '--mtime=@0', '--mode=0644'];
  tar(['-cf', archiveOf(reader), '--format=ustar', ...sameBytes, '-C', folder, '-T', '-'], files.join('\n'));
  return files.length;
}

/** Adds files to a reader's archive, under their own names. */
export function add(reader, paths) {
  const folder = unpack(reader);
  for (const path of paths) copyFileSync(path, join(folder, basename(path)));
  return pack(reader);
}
