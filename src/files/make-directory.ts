import { existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { SidaError } from '../errors.js';

/**
 * Makes a directory and its missing parents. Node's recursive mkdir never returns where the system answers ENOENT below
 * a directory that exists, as in /proc.
 */
export function makeDirectory(path: string, mode = 0o777): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
    if (code !== 'ENOENT') throw error;
    const parent = dirname(path);
    if (existsSync(parent)) {
      const message = `${path}: cannot be made: ${parent} takes no directories`;
      throw new SidaError({ code: 'io_error', message }, { cause: error });
    }
    makeDirectory(parent, mode);
    makeDirectory(path, mode);
  }
}
