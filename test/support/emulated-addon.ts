/** Builds the native addon in which the CPU emulates a GPU (docs/cuda.md), and returns its path. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { REPO } from './sida-process.js';

export function buildEmulatedAddon(): string {
  const out = 'build/addon-emulated';
  const args = ['cmake-js', 'compile', '--log-level', 'error', '--out', out, '--CDSIDA_CUDA=EMULATED'];
  const built = spawnSync('npx', args, { cwd: REPO, encoding: 'utf8', maxBuffer: 1 << 26 });
  if (built.status !== 0)
    throw new Error(`the emulated addon did not build:\n${built.stdout}${built.stderr}`);
  return join(REPO, out, 'Release', 'sida.node');
}
