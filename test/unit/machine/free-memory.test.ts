import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { freeInCgroups, freeMemory } from '../../../src/machine/free-memory.js';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sida-cgroups-'));
});
afterEach(() => rmSync(root, { recursive: true }));

function write(file: string, text: string): void {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), text);
}

describe('what cgroups leave', () => {
  it('is all where there are none', () => {
    expect(freeInCgroups('', root)).toBe(Number.POSITIVE_INFINITY);
    write('a/memory.max', 'max\n');
    write('a/memory.current', '1000\n');
    expect(freeInCgroups('0::/a\n', root)).toBe(Number.POSITIVE_INFINITY);
  });

  it('is the limit less what is used, without pages of files', () => {
    write('a/memory.max', '1000\n');
    write('a/memory.current', '700\n');
    write('a/memory.stat', 'anon 300\nactive_file 150\ninactive_file 250\ninactive_anon 9\n');
    expect(freeInCgroups('0::/a\n', root)).toBe(700);
  });

  it('is what is left of memory.high, where that is smaller', () => {
    write('a/memory.max', '1000\n');
    write('a/memory.high', '800\n');
    write('a/memory.current', '700\n');
    expect(freeInCgroups('0::/a\n', root)).toBe(100);
    write('a/memory.high', 'max\n');
    expect(freeInCgroups('0::/a\n', root)).toBe(300);
  });

  it('is that of the tightest ancestor', () => {
    write('a/memory.max', '500\n');
    write('a/memory.current', '400\n');
    write('a/b/memory.max', '900\n');
    write('a/b/memory.current', '100\n');
    expect(freeInCgroups('0::/a/b\n', root)).toBe(100);
  });

  it("is that of a container, which sees its group as the root and the host's path", () => {
    write('memory.max', '600\n');
    write('memory.current', '100\n');
    expect(freeInCgroups('0::/docker/1234\n', root)).toBe(500);
  });

  it('is that of the first version of cgroups', () => {
    write('memory/pod/memory.limit_in_bytes', '1000\n');
    write('memory/pod/memory.usage_in_bytes', '600\n');
    write('memory/pod/memory.stat', 'inactive_file 1\ntotal_inactive_file 50\ntotal_active_file 20\n');
    expect(freeInCgroups('5:cpu,cpuacct:/x\n4:memory:/pod\n0::/\n', root)).toBe(470);
  });
});

it('is a part of the memory of this machine', () => {
  expect(freeMemory('cpu')).toBeGreaterThan(0);
  expect(freeMemory('cpu')).toBeLessThanOrEqual(totalmem());
});
