/**
 * Locks between processes, by flock(2). The kernel releases a lock when its holder dies, so a lock that a killed
 * process, another container or an earlier boot left behind is no obstacle.
 */
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isMissing, SidaError } from '../errors.js';
import { makeDirectory } from '../files/make-directory.js';
import { loadAddon } from '../native/addon.js';
import { causeOf } from '../text/system-error.js';

/** Time between tries. Each waits a random part of it more, so that waiting processes do not try in step. */
const POLL_MS = 100;
const FIRST_NEWS_MS = 1_000;

/** Who holds a lock that is waited for. */
export interface LockWait {
  /** Its process id, in its own pid namespace. Undefined when it holds the lock shared, or wrote none. */
  pid: number | undefined;
  seconds: number;
}

interface LockRules {
  /** Others may hold the lock shared at the same time. The file of a shared lock stays when it is released. */
  shared: boolean;
  /**
   * The file lies in what it locks: its directory is not created, so that nothing comes back that was removed, and the
   * file stays when the lock is released. Without the directory, taking the lock throws the system's error.
   */
  inside?: boolean;
}

export interface LockOptions {
  signal?: AbortSignal;
  /** Called after the first second of waiting, and then each time the wait has doubled. */
  onWait?: (wait: LockWait) => void;
}

/** A lock that is held until it is released. */
export interface Lock {
  release(): void;
}

/**
 * Runs `body` while this process alone holds the lock file `path`, which is created, and removed at the end. Waits
 * while others hold it. Throws the reason of `signal` when it aborts the wait.
 */
export async function withLock<T>(
  path: string,
  body: () => Promise<T>,
  options: LockOptions = {},
): Promise<T> {
  const lock = await waitForLock(path, { shared: false }, options);
  try {
    return await body();
  } finally {
    lock.release();
  }
}

/** Takes the lock if nobody holds one that forbids it, and returns undefined otherwise. */
export function tryLock(path: string, { shared, inside = false }: LockRules): Lock | undefined {
  if (!inside) makeDirectory(dirname(path), 0o700);
  for (;;) {
    const fd = openLock(path, shared, inside);
    let locked = false;
    try {
      locked = loadAddon().tryLock(fd, shared);
      // The holder before may have removed the file after this process opened it. Then this lock is worth nothing.
      if (locked && isStillAt(path, fd)) return shared ? sharedLock(fd) : exclusiveLock(path, fd, inside);
    } catch (error) {
      closeSync(fd);
      throw error;
    }
    closeSync(fd);
    if (!locked) return undefined;
  }
}

/** The process that wrote itself into the lock file. It may have died since. */
export function lockHolder(path: string): number | undefined {
  try {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    try {
      const text = Buffer.alloc(16);
      const pid = Number(text.toString('latin1', 0, readSync(fd, text, 0, text.length, 0)));
      return Number.isInteger(pid) && pid > 0 ? pid : undefined;
    } finally {
      closeSync(fd);
    }
  } catch {
    return undefined;
  }
}

/** As tryLock, but waits while others hold the lock. Throws the reason of `signal` when it aborts the wait. */
export async function waitForLock(
  path: string,
  rules: LockRules,
  { signal, onWait }: LockOptions = {},
): Promise<Lock> {
  const began = performance.now();
  for (let newsMs = FIRST_NEWS_MS; ; ) {
    signal?.throwIfAborted();
    const lock = tryLock(path, rules);
    if (lock !== undefined) return lock;
    const waited = performance.now() - began;
    if (waited >= newsMs) {
      onWait?.({ pid: lockHolder(path), seconds: Math.round(waited / 1000) });
      newsMs *= 2;
    }
    try {
      await delay(POLL_MS * (1 + Math.random()), undefined, signal && { signal });
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    }
  }
}

function openLock(path: string, shared: boolean, inside: boolean): number {
  const flags = constants.O_NONBLOCK | constants.O_NOFOLLOW | constants.O_NOCTTY;
  try {
    // Only the holder of an exclusive lock writes, so a shared lock needs no right to write once the file is there.
    const there = shared ? openIfThere(path, constants.O_RDONLY | flags) : undefined;
    if (there !== undefined) return regular(path, there);
    return regular(path, openSync(path, constants.O_RDWR | constants.O_CREAT | flags, 0o600));
  } catch (error) {
    if (error instanceof SidaError || (inside && isMissing(error))) throw error;
    throw new SidaError({ code: 'io_error', message: `Cannot lock ${path}: ${causeOf(error)}` });
  }
}

function openIfThere(path: string, flags: number): number | undefined {
  try {
    return openSync(path, flags);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

function regular(path: string, fd: number): number {
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw new SidaError({ code: 'io_error', message: `Cannot lock ${path}: expected a regular file` });
}

function isStillAt(path: string, fd: number): boolean {
  const there = statSync(path, { throwIfNoEntry: false, bigint: true });
  const held = fstatSync(fd, { bigint: true });
  return there !== undefined && there.ino === held.ino && there.dev === held.dev;
}

function sharedLock(fd: number): Lock {
  let held = true;
  return {
    release: () => {
      if (held) closeSync(fd);
      held = false;
    },
  };
}

/** Only the holder of an exclusive lock may remove the file: nobody else can hold it then. */
function exclusiveLock(path: string, fd: number, inside: boolean): Lock {
  ftruncateSync(fd);
  writeSync(fd, String(process.pid), 0);
  let held = true;
  return {
    release: () => {
      if (!held) return;
      held = false;
      if (inside) ftruncateSync(fd);
      // Removed before it is unlocked. Processes that have opened it by now notice, and open the next one.
      else if (isStillAt(path, fd)) rmSync(path, { force: true });
      closeSync(fd);
    },
  };
}
