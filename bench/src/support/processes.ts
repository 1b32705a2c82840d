/** Programs that the laboratory starts and waits for. */
import { spawn } from 'node:child_process';
import { SidaError } from '../../../dist/errors.js';
import { SCRIPTS, SIDA } from './paths.js';

interface RunOptions {
  input?: string;
  /** Ends the program at once, with the programs that it has started. */
  signal?: AbortSignal | undefined;
  /** Its standard error is that of this process, to show how far it is; a failure then carries no words of its own. */
  showErrors?: boolean;
}

/** What a program prints on standard output. Throws cannot_run with the end of its standard error. */
export function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { input, signal, showErrors = false } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', showErrors ? 'inherit' : 'pipe'],
      // A group of its own, to end the programs that it starts as well.
      detached: signal !== undefined,
    });
    const end = () => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL');
    signal?.addEventListener('abort', end, { once: true });
    let [stdout, stderr] = ['', ''];
    child.stdout!.on('data', (chunk: Buffer) => {
      stdout += chunk.toString();
    });
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr = (stderr + chunk.toString()).slice(-4000);
    });
    child.on('error', reject);
    child.on('close', (code, killed) => {
      signal?.removeEventListener('abort', end);
      if (code === 0) return resolve(stdout);
      const message = `${args.slice(0, 3).join(' ')} ended with ${code ?? killed}: ${stderr.trim()}`;
      reject(new SidaError({ code: 'cannot_run', message }));
    });
    // A process that ends early closes its input; its exit says why.
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}

/** Standard output of `sida …`. */
export function sida(args: readonly string[], options: RunOptions = {}): Promise<string> {
  return run(process.execPath, [SIDA, ...args], options);
}

/** A checkpoint of a Switch-base shape with random weights; `args` beside --out. */
export async function makeSwitchCheckpoint(out: string, args: readonly string[], signal?: AbortSignal) {
  await run(process.execPath, [`${SCRIPTS}make-switch-checkpoint.mjs`, '--out', out, ...args], { signal });
}
