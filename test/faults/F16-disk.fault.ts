// The disk fails under a server that reads its experts from it, and under a conversion.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { MINI, REPO } from '../support/server-process.js';
import { fault } from './fault.js';
import { FaultShim } from './shim.js';
import { Subject } from './subject.js';

const MAIN = join(REPO, 'dist/cli/main.js');
const PROMPTS = 40;

const shim = FaultShim.build();
const root = mkdtempSync(join(tmpdir(), 'sida-disk-'));
let subject: Subject;
let experts: string;
beforeAll(async () => {
  const start = () => Subject.start('--memory-budget', '3%', '--attempts', '1');
  subject = await (shim === undefined ? start() : shim.during(start));
  const flags = subject.server.child.spawnargs;
  const packs = flags[flags.indexOf('--pack-dir') + 1]!;
  const [pack] = (await readdir(packs)).filter((name) => name.startsWith('switch-mini'));
  experts = join(packs, pack!, 'experts.sida');
});
afterAll(async () => {
  await subject.stop();
  shim?.remove();
  rmSync(root, { recursive: true, force: true });
});

/** Requests that need experts from the disk: how many were answered, and how many were typed errors. */
async function underFault(): Promise<{ answered: number; failed: number }> {
  const counts = { answered: 0, failed: 0 };
  for (let i = 0; i < PROMPTS; i += 1) {
    const input = `number ${i} of the films, ${'good bad odd '.repeat(i % 7)}`;
    const { status, json } = await subject.ask('/v1/classify', {
      method: 'POST',
      body: { task: 'sst2', input },
    });
    if (status === 200) counts.answered += 1;
    else {
      expect([status, json.error.code]).toEqual([500, 'io_error']);
      expect(json.error.message).not.toContain(experts);
      counts.failed += 1;
    }
  }
  expect((await subject.metrics())('sida_engine_restarts_total')).toBe(0);
  return counts;
}

fault('F16', 'reads of experts fail', async (report) => {
  if (shim === undefined) return report.note('SKIPPED: no C compiler');

  for (const [fails, what] of [
    ['error', 'EIO'],
    ['end', 'the end of the file'],
  ] as const) {
    shim.failReads(fails, 'experts.sida');
    const { failed } = await underFault();
    shim.healReads();
    expect(shim.failedReads).toBeGreaterThan(0);
    expect(failed).toBeGreaterThan(0);
    report.note(`${what}: ${failed} of ${PROMPTS} refused with io_error`);
    await subject.good();
  }

  shim.failReads('short', 'experts.sida');
  await subject.good();
  expect((await underFault()).failed).toBe(0);
  expect(shim.failedReads).toBeGreaterThan(0);
  report.note(`${shim.failedReads} short reads: answers as before`);
  shim.healReads();
  await subject.recovered(report);
});

fault('F16', 'the file of experts is cut or replaced', async (report) => {
  const whole = join(root, 'whole');
  copyFileSync(experts, whole);
  truncateSync(experts, statSync(experts).size / 64);
  const { failed } = await underFault();
  expect(failed).toBeGreaterThan(0);
  report.note(`cut: ${failed} of ${PROMPTS} refused with io_error`);
  await writeFile(experts, await readFile(whole));
  await subject.good();

  // What replaces it is not what is open.
  const other = join(root, 'other');
  await writeFile(other, Buffer.alloc(statSync(whole).size, 0x7f));
  const beside = `${experts}.new`;
  copyFileSync(other, beside);
  renameSync(beside, experts);
  await subject.good();
  expect((await underFault()).failed).toBe(0);
  report.note('replaced by a rename: answers of the file that was opened');

  // An engine that opens it anew finds the damage and makes the pack again.
  process.kill(subject.server.enginePids()[0]!, 'SIGKILL');
  await subject.server.until(async () => (await subject.metrics())('sida_engine_restarts_total') === 1);
  await subject.server.ready(60_000);
  await subject.good();
  report.note('found by the next engine, and packed again');
  await subject.recovered(report);
});

/** `sida convert` with room for less than the pack; its code and words. */
function convertWithoutRoom(out: string): { status: number | null; stderr: string; how: string } {
  const command = [process.execPath, MAIN, 'convert', MINI, '--out', join(out, 'pack')];
  if (process.getuid?.() === 0) {
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'sida-faults', out]).status === 0;
    if (mounted) {
      try {
        const { status, stderr } = spawnSync(command[0]!, command.slice(1), { encoding: 'utf8' });
        return { status, stderr, how: 'a disk of 8 MiB' };
      } finally {
        spawnSync('umount', [out]);
      }
    }
  }
  // A limit of 8 MiB a file, in blocks of 1 KiB.
  const limited = ['-c', 'ulimit -f 8192; exec "$@"', 'bash', ...command];
  const { status, stderr } = spawnSync('bash', limited, { encoding: 'utf8' });
  return { status, stderr, how: 'files of at most 8 MiB' };
}

fault('F16', 'a conversion without room, or from a failing disk', async (report) => {
  const out = join(root, 'small');
  mkdirSync(out);
  const { status, stderr, how } = convertWithoutRoom(out);
  expect(status, stderr).toBe(1);
  expect(stderr.trim().split('\n').at(-1)).toMatch(/pack.*(No space left on device|File too large)/);
  expect(existsSync(join(out, 'pack'))).toBe(false);
  report.note(`${how}: exit 1 and one line, no pack`);

  if (shim !== undefined) {
    shim.failReads('error', 'model.safetensors', 20);
    const args = [MAIN, 'convert', MINI, '--out', join(root, 'eio')];
    const broken = await shim.during(() => spawnSync(process.execPath, args, { encoding: 'utf8' }));
    shim.healReads();
    expect(shim.failedReads).toBe(1);
    expect(broken.status, broken.stderr).toBe(1);
    expect(broken.stderr.trim().split('\n').at(-1)).toMatch(
      /model\.safetensors: cannot read at byte \d+: Input/,
    );
    expect(existsSync(join(root, 'eio'))).toBe(false);
    const again = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(again.status, again.stderr).toBe(0);
    report.note('EIO while reading: exit 1 and one line, no pack; the next run makes it');
  }
  await subject.recovered(report);
});
