import { type ChildProcess, type ExecFileOptions, execFile, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const REPO = join(import.meta.dirname, '..', '..');
/** The compiled source, which threads need: vitest does not transform their files. */
export const DIST = join(REPO, 'dist');

/**
 * A budget at which experts are evicted, and answers with the bits of the oracles and of recorded digests. Flags that
 * come after these take their place.
 */
export const EXACT_HALF = [
  ...['--memory-budget', '50%', '--activations', 'f32', '--kv', 'f32', '--sampling', 'greedy'],
] as const;

const MAIN = join(REPO, 'bundle/cli/main.js');

/** `sida COMMAND` until its end, which this process waits for. */
export const sidaSync = (...args: string[]) =>
  spawnSync(process.execPath, [MAIN, ...args], { encoding: 'utf8' });

/** The output of a command that succeeds. */
export function outputOf(...args: string[]): string {
  const { status, stdout, stderr } = sidaSync(...args);
  if (status !== 0) throw new Error(`sida ${args[0]} ended with ${status}:\n${stderr}`);
  return stdout;
}

export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** `sida COMMAND` until its end. */
export function ended(args: string[], options: ExecFileOptions = {}): Promise<Ended> {
  return new Promise((resolve) => {
    const own = { timeout: 60_000, encoding: 'utf8', ...options } as const;
    execFile(process.execPath, [MAIN, ...args], own, (error, stdout, stderr) => {
      resolve({
        code: error === null ? 0 : Number(error.code),
        stdout: String(stdout),
        stderr: String(stderr),
      });
    });
  });
}

/** `sida COMMAND` as a child process. */
export class SidaProcess {
  readonly child: ChildProcess;
  readonly exit: Promise<number | null>;
  output = '';

  /** `nodeArgs` are arguments of Node itself. */
  constructor(args: string[], onExit: () => void = () => undefined, nodeArgs: readonly string[] = []) {
    const command = [...nodeArgs, MAIN, ...args];
    this.child = spawn(process.execPath, command, { cwd: REPO, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.on('data', (piece: Buffer) => {
        this.output += piece.toString();
      });
    }
    this.exit = new Promise((resolve) => {
      this.child.on('exit', (code) => {
        onExit();
        resolve(code);
      });
    });
  }

  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Ids of its child processes, which is the engine process. */
  enginePids(): number[] {
    const pid = this.child.pid!;
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
      .trim()
      .split(/\s+/)
      .filter(Boolean)
      .map(Number);
  }

  async stop(): Promise<number | null> {
    if (this.alive) {
      this.child.kill('SIGTERM');
      // A process that a test has suspended handles SIGTERM only after SIGCONT.
      this.child.kill('SIGCONT');
    }
    return this.exit;
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.exit;
  }
}

/** A directory for packs, with a function that removes it. */
export function ownPacks(): { flags: string[]; remove: () => void } {
  const directory = mkdtempSync(join(tmpdir(), 'sida-packs-'));
  return {
    flags: ['--pack-dir', directory],
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}
