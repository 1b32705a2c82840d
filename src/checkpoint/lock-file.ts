import { mkdir, open, readFile, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const POLL_MS = 200;

function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/**
 * Runs `body` while this process holds the lock file `path`. Waits while another process of this machine holds it,
 * and takes over the lock of a process that has died.
 */
export async function withLock<T>(path: string, body: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  await mkdir(dirname(path), { recursive: true });
  for (;;) {
    signal?.throwIfAborted();
    try {
      const file = await open(path, 'wx');
      await file.writeFile(String(process.pid));
      await file.close();
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const holder = Number(await readFile(path, 'utf8').catch(() => ''));
    // An empty file means that its owner is about to write its id, or died before that. If it stays empty, remove it.
    if (holder > 0 && !alive(holder)) await rm(path, { force: true });
    else await delay(POLL_MS, undefined, signal && { signal });
    if (holder === 0 && (await readFile(path, 'utf8').catch(() => 'gone')) === '')
      await rm(path, { force: true });
  }
  try {
    return await body();
  } finally {
    await rm(path, { force: true });
  }
}
