/** Static against dynamic gating, measured by a native bench on recorded routes: what runs it, and what it found. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SCRIPTS } from '../support/paths.js';

const SCRIPT = join(SCRIPTS, 'static-gating/gating.mjs');
const TRACES = ['gptoss', 'qwen'];

/** One MoE layer's routes, at several batch sizes. */
export interface GatedLayer {
  name: string;
  /** Experts of a token. */
  k: number;
  experts: number;
  dtype: string;
  runs: GatedBatch[];
}

export interface GatedBatch {
  tokens: number;
  expertsUsed: number;
  mostTokens: number;
  dynamicMs: number;
  dynamicBytes: number;
  /** Every expert computes `capacity` rows; `factor` 0: the least capacity that drops nothing. */
  static: { factor: number; capacity: number; ms: number; bytes: number; dropped: number }[];
}

export interface GatingResult {
  commit: string;
  machine: string;
  threads: number;
  dModel: number;
  dFf: number;
  layers: GatedLayer[];
}

/** The reason why it cannot run here, or undefined. */
export function gatingMissing(): string | undefined {
  if (!existsSync(SCRIPT)) return 'the native benches are in the source repository alone';
  if (spawnSync('cmake', ['--version'], { stdio: 'ignore' }).status !== 0)
    return 'the native benches need cmake';
  return undefined;
}

/** Arguments of node. `data`: a directory that may hold route-traces/. */
export function gatingArgs(data: string | undefined, threads: number): string[] {
  const traces = TRACES.map((name) => join(data ?? '', 'route-traces', `${name}.csv.gz`)).filter(existsSync);
  return [SCRIPT, '--json', '--threads', String(threads), ...traces.flatMap((file) => ['--trace', file])];
}
