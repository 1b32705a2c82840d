/** Opens the files of a model or predictor directory. Every file that a model brings is opened by this module. */
import { lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, join, sep } from 'node:path';
import { type ErrorCode, isMissing, SidaError } from '../errors.js';
import { type OpenFile, openRegularFile, type ReadRules, readRegularFile } from './regular-file.js';

interface ModelFileRules {
  /** Code of the errors. Default: checkpoint_invalid. */
  code?: ErrorCode;
}

const LONGEST_NAME = 255;

/**
 * Opens `directory/name` without following links out of the directory. Returns undefined when there is no such file.
 * Throws an error of `rules.code` that begins with the path, for a name that is a path, a link that leads out of the
 * directory or in a circle, and anything but a regular file. Never waits for a FIFO or a device.
 */
export function openModelFile(
  directory: string,
  name: string,
  { code = 'checkpoint_invalid' }: ModelFileRules = {},
): OpenFile | undefined {
  const path = containedPath(directory, name, code);
  return path === undefined ? undefined : openRegularFile(path, { code, followLink: false });
}

/** Whether `directory/name` is there, be it a link that leads nowhere. Nothing is in a directory that is a file. */
export function isPresent(directory: string, name: string): boolean {
  try {
    lstatSync(join(directory, name));
    return true;
  } catch (error) {
    // A directory that is a link in a circle holds nothing either.
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'ELOOP') return false;
    throw error;
  }
}

/**
 * Whether `directory/name` is a directory. Throws an error of `code` when it is anything else: through a link, the
 * files in it would be opened wherever it leads.
 */
export function holdsDirectory(
  directory: string,
  name: string,
  code: ErrorCode = 'checkpoint_invalid',
): boolean {
  if (!isPresent(directory, name)) return false;
  const path = join(directory, name);
  if (lstatSync(path).isDirectory()) return true;
  throw new SidaError({ code, message: `${path}: expected a directory that is no link` });
}

/** The bytes of `directory/name`. As openModelFile, and throws as readRegularFile. */
export function readModelFile(
  directory: string,
  name: string,
  { code = 'checkpoint_invalid', ...rules }: ModelFileRules & Pick<ReadRules, 'mostBytes' | 'shared'>,
): Buffer | undefined {
  const path = containedPath(directory, name, code);
  return path === undefined ? undefined : readRegularFile(path, { code, ...rules, followLink: false });
}

/** The real path of a file of the directory. The addon decides by the same rules (checkpoint/contained_path.h). */
function containedPath(directory: string, name: string, code: ErrorCode): string | undefined {
  const refuse = (fault: string) => new SidaError({ code, message: `${join(directory, name)}: ${fault}` });
  if (name === '' || name === '.' || name === '..' || /[/\\\0]/.test(name) || name.length > LONGEST_NAME) {
    throw refuse('expected the plain name of a file of this directory');
  }
  try {
    const real = realpathSync.native(join(directory, name));
    const root = realpathSync.native(directory);
    if (liesIn(real, root) || liesInCache(real, root)) return real;
    throw refuse(`link out of the directory: found ${real}`);
  } catch (error) {
    if (error instanceof SidaError) throw error;
    if (isMissing(error)) return undefined;
    throw refuse(`cannot follow: ${(error as NodeJS.ErrnoException).code}`);
  }
}

function liesIn(file: string, directory: string): boolean {
  return file.startsWith(directory.endsWith(sep) ? directory : directory + sep);
}

/** `…/snapshots/<revision>` of the Hugging Face cache and its directories hold links to `…/blobs`. */
function liesInCache(file: string, directory: string): boolean {
  for (let revision = directory; revision !== dirname(revision); revision = dirname(revision)) {
    const snapshots = dirname(revision);
    if (basename(snapshots) === 'snapshots' && liesIn(file, join(dirname(snapshots), 'blobs'))) return true;
  }
  return false;
}
