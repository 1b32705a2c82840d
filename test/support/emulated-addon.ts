/** Builds the native addon in which the CPU emulates a GPU (docs/cuda.md), and returns its path. */
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { REPO } from './sida-process.js';

const BUILD = 'build/addon';

export function buildEmulatedAddon(): string {
  const args = ['--build', BUILD, '--target', 'sida_emulated', '--parallel', String(availableParallelism())];
  const built = spawnSync('cmake', args, { cwd: REPO, encoding: 'utf8', maxBuffer: 1 << 26 });
  if (built.status !== 0)
    throw new Error(`the emulated addon did not build:\n${built.stdout}${built.stderr}`);
  return join(REPO, BUILD, 'Release', 'sida_emulated.node');
}
