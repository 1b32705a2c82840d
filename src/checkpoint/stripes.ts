/** Expert files on other disks. The pack's directory holds links to them, so that its manifest needs no paths. */
import { lstat, readdir, readlink, rm, stat, symlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { SidaError } from '../errors.js';

export const MAX_STRIPES = 64;

/** Path of the expert file `file` of the pack `out` within `directory`. */
function stripePath(directory: string, out: string, file: string): string {
  return join(directory, `${basename(out)}.${file}`);
}

/** Whether `path` has a name that stripePath gives to `file` of some pack, which may have been renamed since. */
export function isStripeFile(path: string, file: string): boolean {
  return basename(path).length > file.length + 1 && path.endsWith(`.${file}`);
}

/** Where `name` leads, if it is a link to a stripe of the pack `out`. A link to a GGUF file is none. */
async function ownStripe(directory: string, out: string, name: string): Promise<string | undefined> {
  if (!name.startsWith('experts.sida.')) return undefined;
  const target = await linkTarget(join(directory, name));
  return target !== undefined && basename(target) === `${basename(out)}.${name}` ? target : undefined;
}

async function linkTarget(path: string): Promise<string | undefined> {
  const status = await lstat(path).catch(() => undefined);
  return status?.isSymbolicLink() ? readlink(path) : undefined;
}

/** Throws cannot_run for a missing directory. Creating one for a mistyped mount point would fill the wrong disk. */
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
 * Makes each `<partial>/<file>` a link into its directory, and keeps the links of an interrupted run. Throws
 * cannot_run when a directory already holds a file of that name.
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

/** The stripes of the pack `out` that the directory links to. A link to any other file is none of its own. */
export async function stripesOf(directory: string, out: string): Promise<string[]> {
  const found = [];
  for (const name of await readdir(directory)) {
    const target = await ownStripe(directory, out, name);
    if (target !== undefined) found.push(target);
  }
  return found;
}

/** Removes a file of an unfinished pack. If it is a link to a stripe of the same pack, removes the stripe too. */
export async function removeUnfinished(partial: string, out: string, name: string): Promise<void> {
  const target = await ownStripe(partial, out, name);
  if (target !== undefined) await rm(target, { force: true });
  await rm(join(partial, name), { recursive: true, force: true });
}
