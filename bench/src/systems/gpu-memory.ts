/**
 * Memory of a GPU while a measurement runs, as its driver counts it: contexts, libraries and all other processes
 * included.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { loadAddon } from '../../../dist/native/addon.js';
import type { Sample } from './work.js';

const MILLISECONDS = 100;
const FIRST_MS = 10_000;

export type GpuMemory = Required<Pick<Sample, 'gpuBeforeBytes' | 'gpuPeakBytes'>>;

/** Number or UUID of the GPU that the addon uses: the first one that CUDA_VISIBLE_DEVICES names. */
export function visibleGpu(env: NodeJS.ProcessEnv = process.env): string {
  return env.CUDA_VISIBLE_DEVICES?.split(',')[0]?.trim() || '0';
}

export class GpuMemoryWatch {
  readonly #child: ChildProcess;
  #polling: NodeJS.Timeout | undefined;
  #before: number | undefined;
  #peak = 0;

  private constructor(command: string, args: readonly string[]) {
    this.#child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  }

  /** Resolves with the first figure. Without nvidia-smi this process asks CUDA as often as it can. */
  static start(
    command = 'nvidia-smi',
    args: readonly string[] = [
      ...['--query-gpu=memory.used', '--format=csv,noheader,nounits'],
      ...[`--id=${visibleGpu()}`, `--loop-ms=${MILLISECONDS}`],
    ],
  ): Promise<GpuMemoryWatch> {
    const watch = new GpuMemoryWatch(command, args);
    return new Promise((resolve) => {
      const ready = () => resolve(watch);
      const late = setTimeout(ready, FIRST_MS);
      late.unref();
      const poll = () => {
        if (watch.#before === undefined) watch.#poll();
        ready();
      };
      watch.#child.on('error', poll);
      watch.#child.on('close', poll);
      createInterface({ input: watch.#child.stdout! }).on('line', (line) => {
        watch.#take(Number.parseFloat(line) * 2 ** 20);
        ready();
      });
    });
  }

  #take(bytes: number): void {
    if (!Number.isFinite(bytes)) return;
    this.#before ??= bytes;
    this.#peak = Math.max(this.#peak, bytes);
  }

  #poll(): void {
    const look = () => {
      const { device } = loadAddon().cuda();
      if (device !== undefined) this.#take(device.totalBytes - device.freeBytes);
    };
    look();
    this.#polling = setInterval(look, MILLISECONDS);
  }

  /** Stops watching. Returns nothing if no figure was available. */
  stop(): GpuMemory | undefined {
    this.#child.kill();
    clearInterval(this.#polling);
    return this.#before === undefined
      ? undefined
      : { gpuBeforeBytes: this.#before, gpuPeakBytes: this.#peak };
  }
}
