// Locks while their holders are killed, and conversions whose lock another container or an earlier boot left behind.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect } from 'vitest';
import { tryLock } from '../../src/checkpoint/lock-file.js';
import { lockTrial } from '../support/lock-trial.js';
import { MINI, REPO } from '../support/server-process.js';
import { SidaProcess } from '../support/sida-process.js';
import { fault } from './fault.js';
import { aTimer } from './quiet.js';

const root = mkdtempSync(join(tmpdir(), 'sida-locks-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const TRIALS = 100;

fault('a lock that processes contend for and die with', async (report) => {
  let [exclusive, ended, entered] = [0, 0, 0];
  for (let trial = 0; trial < TRIALS; trial += 1) {
    const directory = join(root, `trial-${trial}`);
    mkdirSync(directory);
    const look = await lockTrial(directory, { processes: 3, killed: 1, rounds: 10, mostMs: 30_000 });
    exclusive += look.overlaps === 0 ? 1 : 0;
    ended += look.ended ? 1 : 0;
    entered += look.entered;
  }
  report.note(`one holder at a time in ${exclusive} of ${TRIALS} trials, all ended in ${ended}`);
  report.note(`held ${entered} times`);
  expect([exclusive, ended]).toEqual([TRIALS, TRIALS]);
});

const convert = (out: string) => ['convert', MINI, '--out', out];

fault('a conversion that was killed in another pid namespace', async (report) => {
  const out = join(root, 'mini');
  const canUnshare = spawnSync('unshare', ['--pid', '--fork', 'true']).status === 0;
  if (canUnshare) {
    const args = [process.execPath, join(REPO, 'bundle/cli/main.js'), ...convert(out)];
    const first = spawn('unshare', ['--pid', '--fork', '--kill-child', ...args], { stdio: 'ignore' });
    const gone = new Promise((resolve) => first.once('exit', resolve));
    while (!existsSync(`${out}.partial`)) await delay(5);
    first.kill('SIGKILL');
    await gone;
  }
  report.note(canUnshare ? 'killed by unshare --pid' : 'without unshare, a lock file alone');
  // In its namespace the first process may well have had the id of a process that lives here.
  writeFileSync(`${out}.lock`, String(process.pid));
  const second = new SidaProcess(convert(out));
  expect(await Promise.race([second.exit, delay(60_000)]), second.output).toBe(0);
  expect(second.output).not.toContain('Waits for');
});

fault('a conversion that waits says so, and ends at once on SIGTERM', async (report) => {
  const out = join(root, 'waited');
  const lock = tryLock(`${out}.lock`, { shared: false })!;
  const waiting = new SidaProcess(convert(out));
  while (!/for 2 s/.test(waiting.output)) await delay(50);
  const line = `Waits for another conversion to waited by process ${process.pid} (of its own pid namespace), for 2 s`;
  expect(waiting.output.split('\n')).toContain(line);
  const asked = performance.now();
  expect(await waiting.stop()).not.toBe(0);
  const seconds = (performance.now() - asked) / 1000;
  report.withinTime('ended after SIGTERM within', seconds, 1, 's', await aTimer(5));
  lock.release();
  expect(existsSync(out)).toBe(false);
});
