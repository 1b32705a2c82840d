import { appendFileSync, mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readTrace } from '../../../src/trace/trace-file.js';
import { TraceIndex } from '../../../src/trace/trace-index.js';
import { recordOf, writeTrace } from '../predictor/training/trace-fixture.js';

const root = mkdtempSync(join(tmpdir(), 'sida-index-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('an index', () => {
  it('reads the same stacks as a sequential read', async () => {
    const directory = join(root, 'a');
    await writeTrace(directory, [recordOf(0, 5, 1), recordOf(1, 0, 2), recordOf(2, 1, 0), recordOf(3, 7, 4)]);
    const index = await TraceIndex.open(directory);
    expect([...index.lengths[0]!]).toEqual([5, 0, 1, 7]);
    expect([...index.lengths[1]!]).toEqual([1, 2, 0, 4]);
    let i = 0;
    for await (const { stacks } of readTrace(directory)) {
      expect([index.read(i, 0), index.read(i, 1)]).toEqual(stacks);
      expect(index.tokens(i, 0)).toEqual(stacks[0]!.tokens);
      expect(index.tokens(i, 1)).toEqual(stacks[1]!.tokens);
      i++;
    }
    expect(i).toBe(index.records);
    index.close();
  });

  it('says where a complete trace is damaged', async () => {
    const directory = join(root, 'b');
    await writeTrace(directory, [recordOf(0, 5, 1), recordOf(1, 5, 1)]);
    const records = join(directory, 'records.bin');
    appendFileSync(records, 'x');
    await expect(TraceIndex.open(directory)).rejects.toThrow(/2 records end at byte (\d+) of \d+/);
    truncateSync(records, 50);
    await expect(TraceIndex.open(directory)).rejects.toThrow('0 records end at byte 0 of 50');
  });
});
