// The disk fails under a server that reads its experts from it, and under a conversion.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { MINI, REPO } from '../support/server-process.js';
import { fault } from './fault.js';
import { FaultShim } from './shim.js';
import { Subject } from './subject.js';

const PROMPTS = 40;

const shim = new FaultShim();
const root = mkdtempSync(join(tmpdir(), 'sida-disk-'));
let subject: Subject;
let experts: string;
beforeAll(async () => {
  subject = await shim.during(() => Subject.start('--memory-budget', '3%', '--attempts', '1'));
  const flags = subject.server.child.spawnargs;
  const packs = flags[flags.indexOf('--pack-dir') + 1]!;
  const pack = readdirSync(packs).find((name) => name.startsWith('switch-mini'));
  experts = join(packs, pack!, 'experts.sida');
});
afterAll(async () => {
  await subject.stop();
  shim.remove();
  rmSync(root, { recursive: true, force: true });
});

/** Sends requests that need experts from the disk, and returns how many got a typed error. */
async function failures(): Promise<number> {
  let failed = 0;
  for (let i = 0; i < PROMPTS; i += 1) {
    const input = `number ${i} of the films, ${'good bad odd '.repeat(i % 7)}`;
    const { status, json } = await subject.ask('/v1/classify', {
      method: 'POST',
      body: { task: 'sst2', input },
    });
    if (status === 200) continue;
    expect([status, json.error.code]).toEqual([500, 'io_error']);
    expect(json.error.message).not.toContain(experts);
    failed += 1;
  }
  expect((await subject.metrics())('sida_engine_restarts_total')).toBe(0);
  return failed;
}

fault('reads of experts fail', async (report) => {
  for (const [fails, what] of [
    ['error', 'EIO'],
    ['end', 'the end of the file'],
  ] as const) {
    shim.failReads(fails, 'experts.sida');
    const failed = await failures();
    shim.healReads();
    expect(shim.failedReads).toBeGreaterThan(0);
    expect(failed).toBeGreaterThan(0);
    report.note(`${what}: ${failed} of ${PROMPTS} refused with io_error`);
    await subject.good();
  }
  shim.failReads('short', 'experts.sida');
  await subject.good();
  expect(await failures()).toBe(0);
  expect(shim.failedReads).toBeGreaterThan(0);
  report.note(`${shim.failedReads} short reads: answers as before`);
  shim.healReads();
  await subject.recovered(report);
});

fault('the file of experts is cut or replaced', async (report) => {
  const whole = join(root, 'whole');
  copyFileSync(experts, whole);
  const { size } = statSync(experts);
  truncateSync(experts, size / 64);
  const failed = await failures();
  expect(failed).toBeGreaterThan(0);
  report.note(`cut: ${failed} of ${PROMPTS} refused with io_error`);
  copyFileSync(whole, experts);
  await subject.good();

  // What replaces it is not what is open.
  writeFileSync(`${experts}.new`, Buffer.alloc(size, 0x7f));
  renameSync(`${experts}.new`, experts);
  await subject.good();
  expect(await failures()).toBe(0);
  report.note('replaced by a rename: answers of the file that was opened');

  // An engine that opens it anew finds the damage and makes the pack again.
  process.kill(subject.server.enginePids()[0]!, 'SIGKILL');
  await subject.server.until(async () => (await subject.metrics())('sida_engine_restarts_total') === 1);
  await subject.server.ready(60_000);
  await subject.good();
  report.note('found by the next engine, and packed again');
  await subject.recovered(report);
});

/** `sida convert` into `out`, below the command `within`. */
const convert = (out: string, ...within: string[]) => {
  const [command, ...args] = [
    ...[...within, process.execPath, join(REPO, 'bundle/cli/main.js')],
    ...['convert', MINI, '--out', join(root, out)],
  ];
  return spawnSync(command!, args, { encoding: 'utf8' });
};

function expectRefusal({ status, stderr }: ReturnType<typeof convert>, out: string, says: RegExp): void {
  expect(status, stderr).toBe(1);
  expect(stderr.trim().split('\n').at(-1)).toMatch(says);
  expect(existsSync(join(root, out))).toBe(false);
}

/** A disk of 8 MiB, or files of at most as much for those who may not mount. */
const SMALL = 'mount -t tmpfs -o size=8m sida-faults "$0" 2> /dev/null || ulimit -f 8192; exec "$@"';
/** Files of at most 8 MiB: room was there when the conversion began. */
const FILLS = 'ulimit -f 8192; exec "$@"';

fault('a conversion without room, or from a failing disk', async (report) => {
  mkdirSync(join(root, 'small'));
  try {
    const small = convert('small/pack', 'bash', '-c', SMALL, join(root, 'small'));
    expectRefusal(
      small,
      'small/pack',
      /pack.*(needs [\d.]+ MiB, and the disk has [\d.]+ MiB free|File too large)/,
    );
  } finally {
    spawnSync('umount', [join(root, 'small')]);
  }
  report.note('a disk of 8 MiB: exit 1 and one line, no pack');
  const filled = convert('filled', 'bash', '-c', FILLS, 'bash');
  expectRefusal(filled, 'filled', /pack.*File too large|filled.*File too large/);
  report.note('a disk that fills while it is written: exit 1 and one line, no pack');

  shim.failReads('error', 'model.safetensors', 20);
  const broken = await shim.during(() => convert('eio'));
  shim.healReads();
  expect(shim.failedReads).toBe(1);
  expectRefusal(broken, 'eio', /model\.safetensors: cannot read at byte \d+: Input/);
  expect(convert('eio').status).toBe(0);
  report.note('EIO while reading: exit 1 and one line, no pack; the next run makes it');
});
