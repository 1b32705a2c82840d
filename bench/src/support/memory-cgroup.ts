/** A limit on memory that the kernel enforces, page cache included: a control group of its own. Needs root. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { SidaError } from '../../../dist/errors.js';

const ROOT = '/sys/fs/cgroup';
const NAMES = {
  1: { limit: 'memory.limit_in_bytes', peak: 'memory.max_usage_in_bytes' },
  2: { limit: 'memory.max', peak: 'memory.peak' },
} as const;

/** The caller's own group, so that every outer limit stays in force, and the version of its interface. */
function ownGroup(): { path: string; version: 1 | 2 } {
  const lines = readFileSync('/proc/self/cgroup', 'utf8').split('\n');
  const of = (controller: string) => lines.map((line) => line.split(':')).find((parts) => parts[1] === controller)?.[2];
  const first = of('memory');
  if (first !== undefined) return { path: join(ROOT, 'memory', first), version: 1 };
  return { path: join(ROOT, of('') ?? ''), version: 2 };
}

export class MemoryCgroup {
  readonly #path: string;
  readonly #version: 1 | 2;

  /** Throws cannot_run where none is to be had. */
  constructor(limitBytes: number) {
    const { path, version } = ownGroup();
    this.#path = join(path, `sida-bench-${process.pid}`);
    this.#version = version;
    try {
      mkdirSync(this.#path);
      writeFileSync(join(this.#path, NAMES[version].limit), String(limitBytes));
    } catch (error) {
      if (existsSync(this.#path)) rmdirSync(this.#path);
      const message = `There is no memory cgroup to be had: ${(error as Error).message}`;
      throw new SidaError({ code: 'cannot_run', message });
    }
  }

  /** The beginning of a command whose process joins the group before it runs. */
  get through(): readonly string[] {
    return ['sh', '-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', this.#path];
  }

  /** Undefined where the kernel does not say. */
  get peakBytes(): number | undefined {
    const file = join(this.#path, NAMES[this.#version].peak);
    return existsSync(file) ? Number(readFileSync(file, 'utf8')) : undefined;
  }

  /** Call it when its processes have ended. */
  async remove(): Promise<void> {
    for (let tries = 0; ; tries += 1) {
      try {
        rmdirSync(this.#path);
        return;
      } catch (error) {
        // The kernel takes a moment to let go of what has ended.
        if (tries === 20) throw error;
        await pause(100);
      }
    }
  }
}
