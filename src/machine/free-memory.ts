/** How much memory an engine may take on this machine: of its GPU, or of what the kernel and the cgroups leave. */
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { loadAddon } from '../native/addon.js';
import type { DeviceName } from '../native/addon-types.js';

const CGROUPS = '/sys/fs/cgroup';

/** Bytes that are free, or that the kernel would free. Infinite where a GPU is asked for and there is none. */
export function freeMemory(device: DeviceName): number {
  if (device === 'cuda') return loadAddon().cuda().device?.freeBytes ?? Number.POSITIVE_INFINITY;
  const kilobytes = /^MemAvailable: *(\d+) kB/m.exec(read('/proc/meminfo'))?.[1];
  const machine = kilobytes === undefined ? totalmem() : Number(kilobytes) * 1024;
  return Math.min(machine, freeInCgroups(read('/proc/self/cgroup')));
}

/** Besides the free bytes, the share of the last ten seconds in which a task waited for memory, in percent. */
export function memoryNow(): { freeBytes: number; stalled: number } {
  const group = /^0::(.*)$/m.exec(read('/proc/self/cgroup'))?.[1];
  // Without a group of its own, the process waits as the machine does. Kernels without PSI have neither file.
  const own = group === undefined ? '' : read(join(CGROUPS, group, 'memory.pressure'));
  const some = /^some avg10=([\d.]+)/m.exec(own || read('/proc/pressure/memory'));
  return { freeBytes: freeMemory('cpu'), stalled: Number(some?.[1] ?? 0) };
}

interface CgroupFiles {
  /** The smallest one binds. */
  limits: string[];
  usage: string;
  /** Prefix of the lines of memory.stat. */
  prefix: string;
}

const V1: CgroupFiles = {
  limits: ['memory.limit_in_bytes'],
  usage: 'memory.usage_in_bytes',
  prefix: 'total_',
};
const V2: CgroupFiles = { limits: ['memory.max', 'memory.high'], usage: 'memory.current', prefix: '' };

/** What the memory cgroups of a process leave. `membership` is its /proc/self/cgroup. */
export function freeInCgroups(membership: string, root = CGROUPS): number {
  const path = (pattern: RegExp) => pattern.exec(membership)?.[1] ?? '/';
  const v1 = leastFree(join(root, 'memory'), path(/^\d+:[^:]*\bmemory\b[^:]*:(.*)$/m), V1);
  return Math.min(v1, leastFree(root, path(/^0::(.*)$/m), V2));
}

/** The limit of a group binds its descendants. A container may see its own group as the root. */
function leastFree(root: string, path: string, files: CgroupFiles): number {
  const free = freeIn(join(root, path), files);
  return path === '/' || path === '.' ? free : Math.min(free, leastFree(root, dirname(path), files));
}

/** Pages of files count as used, and the kernel drops them first. */
function freeIn(group: string, { limits, usage, prefix }: CgroupFiles): number {
  const set = limits.map((file) => numberIn(read(join(group, file)))).filter((bytes) => !Number.isNaN(bytes));
  const most = Math.min(...set);
  const used = numberIn(read(join(group, usage)));
  if (most === Number.POSITIVE_INFINITY || Number.isNaN(used)) return Number.POSITIVE_INFINITY;
  const stat = read(join(group, 'memory.stat'));
  const pages = (name: string) => Number(new RegExp(`^${prefix}${name} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0);
  return Math.max(0, most - used + pages('inactive_file') + pages('active_file'));
}

/** NaN for no file, and for `max`. */
function numberIn(text: string): number {
  return text === '' ? Number.NaN : Number(text);
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
