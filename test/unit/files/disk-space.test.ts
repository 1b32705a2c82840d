import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { requireSpace } from '../../../src/files/disk-space.js';

const root = mkdtempSync(join(tmpdir(), 'sida-space-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('the space of a pack', () => {
  it('is what its files still need, beside what the disk has free', () => {
    writeFileSync(join(root, 'experts.sida'), Buffer.alloc(300));
    const files = [
      { name: 'dense.sida', bytes: 1000 },
      { name: 'experts.sida', bytes: 500 },
    ];
    const { bytes, free } = requireSpace(root, files);
    expect([bytes, free > 1200]).toEqual([1200, true]);
  });

  it('that the disk does not have is an error of one line with both sizes', () => {
    const files = [
      { name: 'dense.sida', bytes: 2 ** 59 },
      { name: 'other.sida', bytes: 2 ** 59 },
    ];
    const message = expect.stringMatching(
      /the pack needs 1048576 TiB, and the disk has [\d.]+ .iB free; make room, or set --pack-dir or --out to/,
    );
    const code = 'io_error';
    expect(() => requireSpace(root, files)).toThrow(expect.objectContaining({ code, message }));
  });
});
