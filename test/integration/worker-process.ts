import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { REPO } from './server-process.js';

/** `sida worker` as a process of its own. Ended by process id. */
export class WorkerProcess {
  readonly child: ChildProcess;
  readonly exit: Promise<number | null>;
  output = '';

  constructor(args: string[]) {
    const packDir = mkdtempSync(join(tmpdir(), 'sida-packs-'));
    const command = [join(REPO, 'dist/cli/main.js'), 'worker', '--pack-dir', packDir, ...args];
    this.child = spawn(process.execPath, command, { cwd: REPO, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.on('data', (piece: Buffer) => {
        this.output += piece.toString();
      });
    }
    this.exit = new Promise((resolve) => {
      this.child.on('exit', (code) => {
        rmSync(packDir, { recursive: true, force: true });
        resolve(code);
      });
    });
  }

  /** Resolves when it takes jobs. */
  static async start(args: string[]): Promise<WorkerProcess> {
    const worker = new WorkerProcess(args);
    for (let tries = 0; tries < 3_000; tries += 1) {
      if (worker.output.includes('runs jobs for')) return worker;
      if (worker.child.exitCode !== null) break;
      await delay(20);
    }
    throw new Error(`the worker did not begin:\n${worker.output}`);
  }

  async stop(): Promise<number | null> {
    if (this.child.exitCode === null) this.child.kill('SIGTERM');
    return this.exit;
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exit;
  }
}
