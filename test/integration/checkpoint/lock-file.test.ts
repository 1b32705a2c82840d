import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type LockWait,
  lockHolder,
  tryLock,
  waitForLock,
  withLock,
} from '../../../src/checkpoint/lock-file.js';
import { contenderArgs, lookAtLedger } from '../../support/lock-trial.js';

let root: string;
let path: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sida-lock-'));
  path = join(root, 'pack.lock');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const canUnshare = spawnSync('unshare', ['--pid', '--fork', 'true']).status === 0;

describe('a lock file', () => {
  it('lets one holder in, names it, and is gone at the end', async () => {
    await withLock(path, async () => {
      expect(tryLock(path, { shared: false })).toBeUndefined();
      expect(tryLock(path, { shared: true })).toBeUndefined();
      expect(lockHolder(path)).toBe(process.pid);
    });
    expect(existsSync(path)).toBe(false);
  });

  it('is released when the body throws', async () => {
    await expect(withLock(path, () => Promise.reject(new Error('body')))).rejects.toThrow('body');
    tryLock(path, { shared: false })!.release();
  });

  it('may be held shared by several, without an exclusive holder', async () => {
    const both = [await waitForLock(path, { shared: true }), await waitForLock(path, { shared: true })];
    expect(tryLock(path, { shared: false })).toBeUndefined();
    both[0]!.release();
    expect(tryLock(path, { shared: false })).toBeUndefined();
    both[1]!.release();
    const alone = tryLock(path, { shared: false })!;
    expect(tryLock(path, { shared: true })).toBeUndefined();
    alone.release();
  });

  it('that a live process of no relation is named in is no obstacle', async () => {
    writeFileSync(path, String(process.ppid));
    await expect(withLock(path, async () => 'in')).resolves.toBe('in');
  });

  it('is waited for, which is said, until it is free', async () => {
    const lock = tryLock(path, { shared: false })!;
    const waits: LockWait[] = [];
    const waiting = withLock(path, async () => 'in', { onWait: (wait) => waits.push(wait) });
    await delay(2_600);
    expect(waits).toEqual([
      { pid: process.pid, seconds: 1 },
      { pid: process.pid, seconds: 2 },
    ]);
    lock.release();
    await expect(waiting).resolves.toBe('in');
  });

  it('is not waited for any longer after an abort, and the wait leaves the event loop free', async () => {
    const lock = tryLock(path, { shared: false })!;
    const stop = new AbortController();
    const reason = new Error('Interrupted');
    let ticks = 0;
    const ticking = setInterval(() => {
      ticks += 1;
    }, 5);
    setTimeout(() => stop.abort(reason), 300);
    await expect(withLock(path, async () => 'in', { signal: stop.signal })).rejects.toBe(reason);
    clearInterval(ticking);
    expect(ticks).toBeGreaterThan(20);
    lock.release();
  });

  it('does not remove the file of another holder that took its place', () => {
    const first = tryLock(path, { shared: false })!;
    rmSync(path);
    const second = tryLock(path, { shared: false })!;
    first.release();
    expect(tryLock(path, { shared: false })).toBeUndefined();
    second.release();
  });

  it('inside of what it locks stays when it is released, and brings nothing back that was removed', async () => {
    const pack = join(root, 'pack');
    const inside = join(pack, 'use.lock');
    expect(() => tryLock(inside, { shared: false, inside: true })).toThrow(/ENOENT/);
    expect(existsSync(pack)).toBe(false);
    mkdirSync(pack);
    tryLock(inside, { shared: false, inside: true })!.release();
    expect(readFileSync(inside, 'utf8')).toBe('');
    const held = tryLock(inside, { shared: false, inside: true })!;
    const waiting = waitForLock(inside, { shared: true, inside: true });
    renameSync(pack, `${pack}.removed`);
    held.release();
    await expect(waiting).rejects.toThrow(/ENOENT/);
  });

  it('is no link, and nothing is written through one', () => {
    const target = join(root, 'target');
    writeFileSync(target, 'text');
    symlinkSync(target, path);
    expect(() => tryLock(path, { shared: false })).toThrow(/Cannot lock .*pack\.lock/);
    expect(readFileSync(target, 'utf8')).toBe('text');
  });

  it.runIf(canUnshare)('excludes, and outlives, a holder in another pid namespace', async () => {
    const ledger = join(root, 'ledger');
    const args = ['--pid', '--fork', '--kill-child', process.execPath, ...contenderArgs(path, ledger, 1e6)];
    const holder = spawn('unshare', args, { stdio: 'inherit' });
    const ended = new Promise((resolve) => holder.once('exit', resolve));
    while (lookAtLedger(ledger).entered < 5) await delay(20);
    for (let i = 0; i < 10; i += 1) {
      await withLock(path, async () => {
        const { entered } = lookAtLedger(ledger);
        await delay(20);
        expect(lookAtLedger(ledger).entered).toBe(entered);
      });
    }
    holder.kill('SIGKILL');
    await ended;
    await expect(withLock(path, async () => 'in')).resolves.toBe('in');
  });
});
