import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { REPO } from './sida-process.js';

const SHARED = '../shared/oracle/fixtures';
const UNPACKED = join(REPO, 'build/fixtures');

/** The tiny checkpoint `name`, of the repository or of the full set beside it. Throws when neither has it. */
export function oracleFixture(name: string): string {
  const found = findFixture(name);
  if (found === undefined) throw new Error(`no fixture ${name} in test/fixtures or ${SHARED}`);
  return found;
}

/** As `oracleFixture`; undefined for one that is too large for the repository and not beside it. */
export function findFixture(name: string): string | undefined {
  const bundled = join(REPO, 'test/fixtures', name);
  if (existsSync(bundled)) return bundled;
  const archive = join(REPO, `test/fixtures/oracle/${name}.tar.gz`);
  if (existsSync(archive)) return join(unpacked(archive, UNPACKED), name);
  const shared = join(REPO, SHARED, name);
  return existsSync(shared) ? shared : undefined;
}

/** The folder below `root` with the files of the archive, whose content names it. Several processes may ask at once. */
export function unpacked(archive: string, root: string): string {
  const digest = createHash('sha256').update(readFileSync(archive)).digest('hex');
  const folder = join(root, digest.slice(0, 16));
  if (existsSync(folder)) return folder;
  mkdirSync(root, { recursive: true });
  const fresh = mkdtempSync(join(root, 'new-'));
  try {
    const { status, stderr, error } = spawnSync('tar', ['-xzf', archive, '-C', fresh], { encoding: 'utf8' });
    if (status !== 0) throw new Error(`tar -xzf ${archive} failed: ${error?.message ?? stderr.trim()}`);
    publish(fresh, folder);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return folder;
}

/** A rename, so that nobody finds half a fixture. Whoever comes second takes what the first one has unpacked. */
function publish(fresh: string, folder: string): void {
  try {
    renameSync(fresh, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
  }
}
