/** Reads files that only their owner should be able to read. */
import { readFileSync, realpathSync, type Stats } from 'node:fs';
import { type ReadRules, readOpenFile, readRegularFile } from '../files/regular-file.js';
import { shellQuote } from '../text/shell-quote.js';

const MOST_BYTES = 1 << 20;
/** Group and others may read or write. */
const SHARED = 0o066;

/**
 * The text of a file that neither group nor others may read or write. On a read-only mount the rights are not checked:
 * Docker and Kubernetes mount secrets so, with rights that nobody in the container can change. Throws invalid_request
 * with the rights found and the command that mends them.
 */
export function readPrivateFile(path: string): string {
  return readRegularFile(path, rulesFor(path)).toString('utf8');
}

/** As readPrivateFile, of a file that is open already and stays open. */
export function readOpenPrivateFile(fd: number, path: string): string {
  return readOpenFile(fd, path, rulesFor(path)).toString('utf8');
}

function rulesFor(path: string): ReadRules {
  const inspect = ({ mode }: Stats): string | undefined => {
    if ((mode & SHARED) === 0 || liesOnReadOnlyMount(path)) return undefined;
    const found = (mode & 0o777).toString(8).padStart(4, '0');
    return `expected a file that only its owner may read, found mode ${found}; run: chmod 600 ${shellQuote(path)}`;
  };
  return { code: 'invalid_request', mostBytes: MOST_BYTES, inspect };
}

function liesOnReadOnlyMount(path: string): boolean {
  let mounts: string;
  try {
    mounts = readFileSync('/proc/self/mountinfo', 'utf8');
  } catch {
    return false;
  }
  const mount = mountOf(realpathSync(path), mounts);
  return mount?.options.split(',').includes('ro') ?? false;
}

/** The mount that holds a real path, out of a text like /proc/self/mountinfo. */
export function mountOf(path: string, mountinfo: string): { point: string; options: string } | undefined {
  let found: { point: string; options: string } | undefined;
  for (const line of mountinfo.split('\n')) {
    const [, , , , escaped, options] = line.split(' ');
    if (escaped === undefined || options === undefined) continue;
    const point = escaped.replace(/\\(\d{3})/g, (_, octal) => String.fromCharCode(Number.parseInt(octal, 8)));
    const holds = path === point || path.startsWith(point.endsWith('/') ? point : `${point}/`);
    // Later mounts cover earlier ones.
    if (holds && point.length >= (found?.point.length ?? 0)) found = { point, options };
  }
  return found;
}
