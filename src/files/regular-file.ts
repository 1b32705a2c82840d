/** Opens files that come from outside: never anything but a regular file, and never more bytes than expected. */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import { type ErrorCode, SidaError } from '../errors.js';
import { formatBytes, formatLeast } from '../text/bytes.js';

export interface FileRules {
  /** Code of the errors. */
  code: ErrorCode;
  /** Whether the last component may be a symbolic link. Default: true. */
  followLink?: boolean;
  /** Returns what is wrong with the status of the open file. */
  inspect?: (status: Stats) => string | undefined;
}

export interface ReadRules extends FileRules {
  /** The file is refused before it is read when it is larger. */
  mostBytes: number;
  /** The bytes are in memory that threads share. */
  shared?: boolean;
}

/** Whoever receives one must close `fd`. */
export interface OpenFile {
  fd: number;
  /** Size when it was opened. */
  size: number;
}

/** Opening a FIFO without a writer, or some devices, would wait. Regular files ignore O_NONBLOCK. */
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

/** Throws an error of `rules.code` that begins with the path, or the system's error when there is no such file. */
export function openRegularFile(path: string, rules: FileRules): OpenFile {
  const refuse = (fault: string) => new SidaError({ code: rules.code, message: `${path}: ${fault}` });
  let fd: number;
  try {
    fd = openSync(path, FLAGS | (rules.followLink === false ? constants.O_NOFOLLOW : 0));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') throw error;
    // A socket, or a device without a driver.
    if (code === 'ENXIO') throw refuse('expected a regular file, found a socket or a device');
    if (code === 'ELOOP') throw refuse('expected a regular file, found a symbolic link');
    throw refuse(message.split(', open ')[0]!);
  }
  try {
    return { fd, size: sizeOfOpenFile(fd, path, rules) };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Examines the open file rather than its name, which may mean another one by now. */
function sizeOfOpenFile(fd: number, path: string, { code, inspect }: FileRules): number {
  const status = fstatSync(fd);
  const fault = status.isFile() ? inspect?.(status) : `expected a regular file, found ${kindOf(status)}`;
  if (fault !== undefined) throw new SidaError({ code, message: `${path}: ${fault}` });
  return status.size;
}

function kindOf(status: Stats): string {
  if (status.isDirectory()) return 'a directory';
  if (status.isFIFO()) return 'a FIFO';
  if (status.isCharacterDevice() || status.isBlockDevice()) return 'a device';
  return 'something else';
}

/** The bytes of a regular file. Throws as openRegularFile, and for a file that is too large or changes its size. */
export function readRegularFile(path: string, rules: ReadRules): Buffer {
  const { fd } = openRegularFile(path, rules);
  try {
    return readOpenFile(fd, path, rules);
  } finally {
    closeSync(fd);
  }
}

/** The bytes of an open file, which stays open. Throws as readRegularFile. */
export function readOpenFile(fd: number, path: string, rules: ReadRules): Buffer {
  const refuse = (fault: string, details: Record<string, number>) =>
    new SidaError({ code: rules.code, message: `${path}: ${fault}`, details });
  const size = sizeOfOpenFile(fd, path, rules);
  const { mostBytes } = rules;
  if (size > mostBytes) {
    const found = { expected: mostBytes, found: size };
    throw refuse(`too large: expected at most ${formatBytes(mostBytes)}, found ${formatLeast(size)}`, found);
  }
  // One byte more shows a file that grows, and files of /proc, whose size is 0.
  const bytes = rules.shared ? Buffer.from(new SharedArrayBuffer(size + 1)) : Buffer.allocUnsafe(size + 1);
  let done = 0;
  for (let read = 1; read > 0 && done < bytes.length; done += read) {
    read = readSync(fd, bytes, done, bytes.length - done, done);
  }
  if (done !== size) {
    const found = done > size ? 'more' : String(done);
    throw refuse(`changed while it was read: expected ${size} bytes, found ${found}`, { expected: size });
  }
  return bytes.subarray(0, size);
}
