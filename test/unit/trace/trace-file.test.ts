import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { readMeta, readTrace, shapeOf, TraceIndex, TraceWriter } from '../../../src/trace/trace-file.js';
import {
  decodeRecord,
  encodeRecord,
  type TraceRecord,
  type TraceShape,
} from '../../../src/trace/trace-record.js';
import { tracedModel } from '../../support/traced-model.js';

const root = mkdtempSync(join(tmpdir(), 'sida-trace-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const meta = {
  format: 'sida-trace',
  version: 1,
  model: tracedModel('m'),
  layers: ['encoder.1', 'encoder.3', 'decoder.1'],
  experts: 8,
  top: 3,
  data: 'd.jsonl',
  template: '{text}',
  maxNewTokens: 2,
} as const;
const writable = { ...meta, layers: [...meta.layers] };
const shape = shapeOf({ ...writable, stacks: ['encoder', 'decoder'] });

function recordOf(line: number, n: number, m: number, { stacks, top }: TraceShape = shape): TraceRecord {
  const side = (tokens: number, layers: number) => ({
    tokens: Int32Array.from({ length: tokens }, (_, i) => line * 100 + i),
    experts: Uint16Array.from({ length: layers * tokens * top }, (_, i) => (i * 7 + line) % 8),
    logits: Float32Array.from({ length: layers * tokens * top }, (_, i) => Math.sin(i + line)),
  });
  return { line, input: n, stacks: stacks.map(({ layers }, s) => side(s === 0 ? n : m, layers)) };
}

async function all(directory: string): Promise<TraceRecord[]> {
  const records = [];
  for await (const record of readTrace(directory)) records.push(record);
  return records;
}

describe('a record', () => {
  it('survives the round trip for any numbers of tokens, layers and experts', () => {
    const small = fc.integer({ min: 0, max: 9 });
    fc.assert(
      fc.property(
        small,
        small,
        small,
        small,
        fc.integer({ min: 1, max: 5 }),
        (n, m, encoderLayers, decoderLayers, top) => {
          const any: TraceShape = {
            stacks: [
              { name: 'encoder', layers: encoderLayers },
              { name: 'decoder', layers: decoderLayers },
            ],
            top,
          };
          const record = recordOf(5, n, m, any);
          expect(decodeRecord(encodeRecord(record, any).buffer, any)).toEqual(record);
        },
      ),
    );
  });

  it('of a decoder-only model separates the input from its continuation', () => {
    const alone: TraceShape = { stacks: [{ name: 'decoder', layers: 2 }], top: 3 };
    const record = { ...recordOf(4, 7, 0, alone), input: 5 };
    expect(record.stacks).toHaveLength(1);
    expect(decodeRecord(encodeRecord(record, alone).buffer, alone)).toEqual(record);
  });
});

describe('a trace', () => {
  it('returns the written records, and says when it is complete', async () => {
    const out = join(root, 'a');
    const writer = await TraceWriter.open(out, writable);
    await writer.append([recordOf(0, 5, 1), recordOf(1, 1, 2)]);
    await writer.append([recordOf(2, 9, 0)]);
    expect((await readMeta(out)).complete).toBe(false);
    await writer.finish();
    await writer.close();
    expect((await readMeta(out)).complete).toBe(true);
    expect(await all(out)).toEqual([recordOf(0, 5, 1), recordOf(1, 1, 2), recordOf(2, 9, 0)]);
  });

  it('continues after its last complete record', async () => {
    const out = join(root, 'b');
    const first = await TraceWriter.open(out, writable);
    await first.append([recordOf(0, 5, 1), recordOf(1, 4, 1)]);
    await first.close();
    appendFileSync(join(out, 'records.bin'), encodeRecord(recordOf(2, 6, 1), shape).subarray(0, 50));
    expect(await all(out)).toHaveLength(2);
    const second = await TraceWriter.open(out, writable);
    expect(second.nextLine).toBe(2);
    await second.append([recordOf(2, 6, 1)]);
    await second.finish();
    await second.close();
    expect(await all(out)).toEqual([recordOf(0, 5, 1), recordOf(1, 4, 1), recordOf(2, 6, 1)]);
    expect(readFileSync(join(out, 'records.bin')).length).toBe(
      [recordOf(0, 5, 1), recordOf(1, 4, 1), recordOf(2, 6, 1)].reduce(
        (sum, r) => sum + encodeRecord(r, shape).length,
        0,
      ),
    );
  });

  it('is not mixed with another trace', async () => {
    const out = join(root, 'c');
    await (await TraceWriter.open(out, writable)).close();
    await (await TraceWriter.open(out, { ...writable, stacks: ['encoder', 'decoder'], topK: 1 })).close();
    await expect(TraceWriter.open(out, { ...writable, topK: 2 })).rejects.toThrow(
      'topK is 1 there and 2 here',
    );
    await expect(TraceWriter.open(out, { ...writable, top: 2 })).rejects.toMatchObject({
      code: 'cannot_run',
    });
  });
});

describe('an index', () => {
  it('reads any record, and knows the lengths of all', async () => {
    const out = join(root, 'index');
    const records = [recordOf(0, 5, 1), recordOf(1, 0, 2), recordOf(2, 1, 0), recordOf(3, 7, 4)];
    const writer = await TraceWriter.open(out, writable);
    await writer.append(records);
    await writer.close();
    await expect(TraceIndex.open(out)).rejects.toThrow(/incomplete: it holds 4 records of d\.jsonl/);
    const again = await TraceWriter.open(out, writable);
    await again.finish();
    await again.close();
    const index = await TraceIndex.open(out);
    expect(index.lengths).toEqual([
      [5, 1],
      [0, 2],
      [1, 0],
      [7, 4],
    ]);
    for (const i of [2, 0, 3, 1]) expect(index.read(i)).toEqual(records[i]);
    index.close();
  });

  it('says where a complete trace is damaged', async () => {
    const out = join(root, 'damaged');
    const writer = await TraceWriter.open(out, writable);
    await writer.append([recordOf(0, 5, 1), recordOf(1, 5, 1)]);
    await writer.finish();
    await writer.close();
    const records = join(out, 'records.bin');
    appendFileSync(records, 'x');
    await expect(TraceIndex.open(out)).rejects.toThrow(/2 records end at byte (\d+) of \d+/);
    truncateSync(records, 50);
    await expect(TraceIndex.open(out)).rejects.toThrow('0 records end at byte 0 of 50');
  });
});
