/** Processes that contend for a lock and are killed at random, and a look at whether two ever held it at once. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const CONTENDER = join(import.meta.dirname, 'lock-contender.mjs');

/** The command line of a contender, without Node itself. */
export function contenderArgs(lock: string, ledger: string, rounds: number): string[] {
  return [CONTENDER, lock, ledger, String(rounds)];
}

export interface LedgerLook {
  /** Times that the lock was taken. */
  entered: number;
  /** Times that a process left the lock after another had entered. A holder that was killed leaves never. */
  overlaps: number;
}

export function lookAtLedger(ledger: string): LedgerLook {
  const lines = existsSync(ledger) ? readFileSync(ledger, 'utf8').trim().split('\n') : [];
  let holder = '';
  const look = { entered: 0, overlaps: 0 };
  for (const line of lines) {
    const [what, ...who] = line.split(' ');
    if (what === 'enter') {
      look.entered += 1;
      holder = who.join(' ');
    } else if (who.join(' ') !== holder) look.overlaps += 1;
  }
  return look;
}

/**
 * Runs `processes` contenders at once, of which `killed` are killed at random moments. The lock file is there before
 * and holds the id of this process, as a lock does that another container left behind. Returns whether all others
 * ended in time.
 */
export async function lockTrial(
  directory: string,
  {
    processes,
    killed,
    rounds,
    mostMs,
  }: { processes: number; killed: number; rounds: number; mostMs: number },
): Promise<LedgerLook & { ended: boolean }> {
  const [lock, ledger] = [join(directory, 'x.lock'), join(directory, 'ledger')];
  writeFileSync(lock, String(process.pid));
  const children = Array.from({ length: processes }, () => start(lock, ledger, rounds));
  const late = setTimeout(() => {
    for (const { child } of children) child.kill('SIGKILL');
  }, mostMs);
  for (const { child, ready } of children.slice(0, killed)) {
    await ready;
    await delay(Math.random() * 30);
    child.kill('SIGKILL');
  }
  const codes = await Promise.all(children.map(({ ended }) => ended));
  clearTimeout(late);
  return { ...lookAtLedger(ledger), ended: codes.slice(killed).every((code) => code === 0) };
}

function start(lock: string, ledger: string, rounds: number) {
  const child: ChildProcess = spawn(process.execPath, contenderArgs(lock, ledger, rounds), {
    stdio: 'inherit',
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { child, ended, ready: delay(60 + Math.random() * 40) };
}
