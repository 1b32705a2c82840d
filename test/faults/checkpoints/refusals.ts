/** Runs cases of bad models through the command line and judges what it makes of them. */
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { FaultReport } from '../fault.js';
import type { CheckpointCase } from './case.js';
import { type Ended, sida } from './command-line.js';

const MIB = 1024 ** 2;
/** Both beyond a sound model. */
const MOST_SECONDS = 1;
const MOST_BYTES = 64 * MIB;
/** A line with file, tensor, what, expected, found and hint fits. */
const LONGEST_LINE = 1_000;

/** A directory with `model` in it, harmed. */
function harmed({ harm }: CheckpointCase, root: string, model: string): string {
  const directory = join(root, 'model');
  rmSync(directory, { recursive: true, force: true });
  rmSync(join(root, 'pack'), { recursive: true, force: true });
  cpSync(model, directory, { recursive: true });
  harm(directory);
  return directory;
}

/** The command failed with exit code 4 and one line, which has these parts. */
export function checkRefusal(
  { code, lines, stderr }: Ended,
  says: NonNullable<CheckpointCase['says']>,
): void {
  expect(code, stderr).toBe(4);
  expect(lines, stderr).toHaveLength(1);
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
export async function judgeCases(
  cases: readonly CheckpointCase[],
  report: FaultReport,
  { root, model, run }: { root: string; model: string; run: (directory: string) => Promise<Ended> },
): Promise<void> {
  const ofSound = () => {
    rmSync(join(root, 'pack'), { recursive: true, force: true });
    return run(model);
  };
  let sound = await ofSound();
  let slowest = { what: '', value: 0 };
  let largest = { what: '', value: 0 };
  const failed: string[] = [];
  let taken = 0;
  for (const each of cases) {
    const ended = await run(harmed(each, root, model));
    const what = `${each.item}: ${each.what}`;
    const whole = ended.code === 0 && each.orTaken === true;
    if (each.says === undefined || whole) taken += 1;
    if (whole) expect(ended.lines).toEqual([]);
    else if (each.says === undefined)
      expect([what, ended.code, ended.stderr]).toMatchObject([what, 0, expect.anything()]);
    else {
      try {
        checkRefusal(ended, each.says);
      } catch (error) {
        failed.push(`${what}: ${(error as Error).message}`);
      }
    }
    let seconds = ended.seconds - sound.seconds;
    let bytes = ended.peakBytes - sound.peakBytes;
    // What is slow is so again, beside a sound model; a machine that others use is slow by turns.
    if (seconds > MOST_SECONDS) {
      const again = await run(harmed(each, root, model));
      seconds = Math.min(seconds, again.seconds - (await ofSound()).seconds);
    }
    // The limit of memory is an assertion. A sound model that took less than usual must not break it.
    if (bytes > MOST_BYTES) {
      sound = { ...sound, peakBytes: Math.max(sound.peakBytes, (await ofSound()).peakBytes) };
      bytes = Math.min(bytes, (await run(harmed(each, root, model))).peakBytes - sound.peakBytes);
    }
    if (seconds > slowest.value) slowest = { what, value: seconds };
    if (bytes > largest.value) largest = { what, value: bytes };
  }
  expect(failed).toEqual([]);
  report.note(`${cases.length - taken} refused in one line with exit code 4, ${taken} taken`);
  const quiet = { what: 'the time of a sound model', value: sound.seconds, times: 3 };
  report.withinTime(
    `beyond a sound model at most (${slowest.what})`,
    slowest.value,
    MOST_SECONDS,
    's',
    quiet,
  );
  report.atMost(`and (${largest.what})`, largest.value / MIB, MOST_BYTES / MIB, 'MiB');
}

/** Runs `sida serve`, and ends the server as soon as it is ready. `more` are flags; `peak` a file for its memory. */
export function serveUntilReady(peak: string, ...more: string[]): (directory: string) => Promise<Ended> {
  return (directory) => {
    const flags = ['serve', '--model', directory, '--memory-budget', '100%', '--port', '0'];
    let told = false;
    return sida([...flags, ...(more.length > 0 ? more : ['--predictor', 'none'])], peak, (child, output) => {
      if (told || !/ serves .* at http/.test(output)) return;
      told = true;
      child.kill('SIGTERM');
    });
  };
}
