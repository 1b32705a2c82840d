import { setTimeout as delay } from 'node:timers/promises';
import { EXACT_HALF, ownPacks, SidaProcess } from './sida-process.js';

/** `sida worker` as a child process. */
export class WorkerProcess extends SidaProcess {
  constructor(args: string[]) {
    const { flags, remove } = ownPacks();
    super(['worker', ...EXACT_HALF, ...flags, ...args], remove);
  }

  /** Starts a worker. Resolves when it takes jobs. */
  static async start(args: string[]): Promise<WorkerProcess> {
    const worker = new WorkerProcess(args);
    for (let tries = 0; tries < 3_000; tries += 1) {
      if (worker.output.includes('runs jobs for')) return worker;
      if (!worker.alive) break;
      await delay(20);
    }
    throw new Error(`the worker did not begin:\n${worker.output}`);
  }
}
