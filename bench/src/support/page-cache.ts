import { writeFileSync } from 'node:fs';

/** Drops what the kernel keeps of files. Needs root. What is dirty stays, so files must have been written before. */
export function emptyPageCache(): void {
  writeFileSync('/proc/sys/vm/drop_caches', '3');
}
