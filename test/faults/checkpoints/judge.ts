/** Runs cases of bad models through the command line and judges what it makes of them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'vitest';
import { REPO } from '../../support/server-process.js';
import type { FaultReport } from '../fault.js';
import { MIB } from '../subject.js';

type Says = (string | RegExp)[];
/** Damages a sound model that lies in `directory`. */
export type Harm = (directory: string) => void;
/** What is wrong, what makes it so, and parts of the one line of the refusal. Without any, the model is taken. */
export type Case = [what: string, harm: Harm, ...says: Says];
/** First part of the line of a model that may also be taken. */
export const OR_TAKEN = /^/;

const HOOK = pathToFileURL(join(import.meta.dirname, 'peak-memory.mjs')).href;
const LIMIT_MS = 60_000;
/** Both beyond a sound model. */
const MOST_SECONDS = 1;
const MOST_BYTES = 64 * MIB;
/** A line with file, tensor, what, expected, found and hint fits. */
const LONGEST_LINE = 1_000;

export interface Ended {
  code: number | null;
  /** The lines that tell of a failure; beside them stand progress and the log. */
  lines: string[];
  stderr: string;
  seconds: number;
  /** The most memory that the process or a child of it held. */
  peakBytes: number;
}

/** `sida` as a process. `during` sees it, and what it has said so far. `peak` is a file for its memory. */
export function sida(
  args: string[],
  peak: string,
  during?: (child: ChildProcess, output: string) => void,
): Promise<Ended> {
  writeFileSync(peak, '');
  const env = { ...process.env, NODE_OPTIONS: `--import=${HOOK}`, SIDA_PEAK: peak };
  const started = performance.now();
  const child = spawn(process.execPath, [join(REPO, 'bundle/cli/main.js'), ...args], {
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
      const lines = stderr.split('\n').filter((line) => line.startsWith('sida: '));
      const seconds = (performance.now() - started) / 1000;
      resolve({ code, stderr, lines, seconds, peakBytes: Math.max(...peaks) * 1024 });
    });
  });
}

/** The command failed with exit code 4 and one line, which has these parts. */
export function checkRefusal({ code, lines, stderr }: Ended, says: Says): void {
  expect([code, lines.length], stderr).toEqual([4, 1]);
  const line = lines[0]!;
  expect(line.length).toBeLessThan(LONGEST_LINE);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those must not be there
  expect(line).not.toMatch(/[\u0000-\u001f\u202a-\u202e]/);
  for (const part of says) {
    if (typeof part === 'string') expect(line).toContain(part);
    else expect(line).toMatch(part);
  }
}

/**
 * Runs every case on a copy of the sound `model`, in `root`. What it takes in time and memory beyond a sound model is
 * limited.
 */
export async function judge(
  cases: readonly Case[],
  report: FaultReport,
  { root, model, run }: { root: string; model: string; run: (directory: string) => Promise<Ended> },
): Promise<void> {
  const fresh = (directory: string) => {
    rmSync(join(root, 'pack'), { recursive: true, force: true });
    return run(directory);
  };
  const runHarmed = (harm: Harm) => {
    const directory = join(root, 'model');
    rmSync(directory, { recursive: true, force: true });
    cpSync(model, directory, { recursive: true });
    harm(directory);
    return fresh(directory);
  };
  let sound = await fresh(model);
  const slowest = { what: '', seconds: 0 };
  const largest = { what: '', bytes: 0 };
  const failed: string[] = [];
  let taken = 0;
  for (const [what, harm, ...says] of cases) {
    const ended = await runHarmed(harm);
    try {
      if (says.length === 0 || (says[0] === OR_TAKEN && ended.code === 0)) {
        taken += 1;
        expect([ended.code, ended.lines], ended.stderr).toEqual([0, []]);
      } else checkRefusal(ended, says);
    } catch (error) {
      failed.push(`${what}: ${(error as Error).message}`);
    }
    let seconds = ended.seconds - sound.seconds;
    let bytes = ended.peakBytes - sound.peakBytes;
    // What is slow is so again, beside a sound model; a machine that others use is slow by turns.
    if (seconds > MOST_SECONDS) {
      const again = await runHarmed(harm);
      seconds = Math.min(seconds, again.seconds - (await fresh(model)).seconds);
    }
    // The limit of memory is an assertion. A sound model that took less than usual must not break it.
    if (bytes > MOST_BYTES) {
      sound = { ...sound, peakBytes: Math.max(sound.peakBytes, (await fresh(model)).peakBytes) };
      bytes = Math.min(bytes, (await runHarmed(harm)).peakBytes - sound.peakBytes);
    }
    if (seconds > slowest.seconds) Object.assign(slowest, { what, seconds });
    if (bytes > largest.bytes) Object.assign(largest, { what, bytes });
  }
  expect(failed).toEqual([]);
  report.note(`${cases.length - taken} refused in one line with exit code 4, ${taken} taken`);
  const quiet = { what: 'the time of a sound model', value: sound.seconds, times: 3 };
  const most = `beyond a sound model at most (${slowest.what})`;
  report.withinTime(most, slowest.seconds, MOST_SECONDS, 's', quiet);
  report.atMost(`and (${largest.what})`, largest.bytes / MIB, MOST_BYTES / MIB, 'MiB');
}
