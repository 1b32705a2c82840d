import { execFileSync } from 'node:child_process';

/** Makes a FIFO without reader or writer. Node has no call for it. */
export function makeFifo(path: string): void {
  execFileSync('mkfifo', [path]);
}
