/** Expert files on other disks: in the pack's directory stand links, so that its manifest names no places. */
import { lstat, readlink, rm, stat, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { SidaError } from '../errors.js';

export const MAX_STRIPES = 64;

/** Where stripe `index` of the pack `out` lies. */
function stripePath(directory: string, out: string, file: string): string {
  return join(directory, `${basename(out)}.${file}`);
}

async function linkTarget(path: string): Promise<string | undefined> {
  const status = await lstat(path).catch(() => undefined);
  return status?.isSymbolicLink() ? readlink(path) : undefined;
}

/** Throws cannot_run where a directory is missing: a mistyped mount point must not fill the disk below it. */
export async function requireDirectories(directories: readonly string[]): Promise<void> {
  for (const directory of directories) {
    const status = await stat(directory).catch(() => undefined);
    if (status?.isDirectory()) continue;
    throw new SidaError({
      code: 'cannot_run',
      message: `${directory} is not a directory; a stripe goes into one that is there`,
    });
  }
}

/**
 * Makes `<partial>/<file>` a link into a directory, for each of the files; links of an interrupted run stay. Throws
 * cannot_run where a directory holds a file of that name already.
 */
export async function linkStripes(
  partial: string,
  out: string,
  stripes: readonly { file: string; directory: string }[],
): Promise<void> {
  for (const { file, directory } of stripes) {
    const link = join(partial, file);
    const target = stripePath(directory, out, file);
    if ((await linkTarget(link)) === target) continue;
    if ((await lstat(target).catch(() => undefined)) !== undefined) {
      throw new SidaError({
        code: 'cannot_run',
        message: `${target} exists already; remove it or name another directory for the stripe`,
      });
    }
    await removeUnfinished(partial, out, file);
    await symlink(target, link);
  }
}

/** Removes a file of unfinished work, and what it links to where that is a stripe of the same work. */
export async function removeUnfinished(partial: string, out: string, name: string): Promise<void> {
  const target = await linkTarget(join(partial, name));
  if (target !== undefined && basename(target) === `${basename(out)}.${name}`)
    await rm(target, { force: true });
  await rm(join(partial, name), { recursive: true, force: true });
}
