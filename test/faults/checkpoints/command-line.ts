/** `sida` as a process, with its time and the most memory that it or a child of it held. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { REPO } from '../../support/server-process.js';

const HOOK = pathToFileURL(join(import.meta.dirname, 'peak-memory.mjs')).href;
const LIMIT_MS = 60_000;

export interface Ended {
  code: number | null;
  /** The lines that tell of a failure; beside them stand progress and the log. */
  lines: string[];
  stderr: string;
  seconds: number;
  peakBytes: number;
}

/** `during` sees the process while it runs, and what it has said so far. `peak` is a file to leave the memory in. */
export function sida(
  args: string[],
  peak: string,
  during?: (child: ChildProcess, output: string) => void,
): Promise<Ended> {
  writeFileSync(peak, '');
  const env = { ...process.env, NODE_OPTIONS: `--import=${HOOK}`, SIDA_PEAK: peak };
  const started = performance.now();
  const child = spawn(process.execPath, [join(REPO, 'dist/cli/main.js'), ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: LIMIT_MS,
    killSignal: 'SIGKILL',
  });
  let [stderr, output] = ['', ''];
  child.stderr.on('data', (piece: Buffer) => {
    stderr += piece.toString();
  });
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (piece: Buffer) => {
      output += piece.toString();
      during?.(child, output);
    });
  }
  return new Promise((resolve) => {
    child.on('close', (code) => {
      const peaks = readFileSync(peak, 'utf8').split('\n').map(Number);
      resolve({
        code,
        stderr,
        lines: stderr.split('\n').filter((line) => line.startsWith('sida: ')),
        seconds: (performance.now() - started) / 1000,
        peakBytes: Math.max(...peaks) * 1024,
      });
    });
  });
}
