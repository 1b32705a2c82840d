/**
 * Memory of a GPU while a measurement runs, as its driver counts it: contexts, libraries and all other processes
 * included. nvidia-smi looks from a process of its own, as this one is busy.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { Sample } from './work.js';

const MILLISECONDS = 100;

/** Number or UUID of the GPU that the addon uses: the first one that CUDA_VISIBLE_DEVICES names. */
export function visibleGpu(env: NodeJS.ProcessEnv = process.env): string {
  return env.CUDA_VISIBLE_DEVICES?.split(',')[0]?.trim() || '0';
}

export class GpuMemoryWatch {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #seen: number[] = [];

  private constructor() {
    const query = ['--query-gpu=memory.used', '--format=csv,noheader,nounits'];
    const args = [...query, `--id=${visibleGpu()}`, `--loop-ms=${MILLISECONDS}`];
    this.#child = spawn('nvidia-smi', args, { stdio: ['ignore', 'pipe', 'ignore'] });
    this.#child.on('error', () => {});
    this.#lines = createInterface({ input: this.#child.stdout! });
    this.#lines.on('line', (line) => this.#seen.push(Number.parseFloat(line) * 2 ** 20));
  }

  /** Resolves with the first figure, or where nvidia-smi has none. */
  static async start(): Promise<GpuMemoryWatch> {
    const watch = new GpuMemoryWatch();
    await Promise.race([once(watch.#lines, 'line'), once(watch.#lines, 'close')]);
    return watch;
  }

  /** Stops watching. Returns nothing if no figure was available. */
  stop(): Pick<Sample, 'gpuBeforeBytes' | 'gpuPeakBytes'> {
    this.#child.kill();
    const [before] = this.#seen;
    return before === undefined ? {} : { gpuBeforeBytes: before, gpuPeakBytes: Math.max(...this.#seen) };
  }
}
