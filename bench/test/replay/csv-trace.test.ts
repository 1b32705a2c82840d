import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { readCsvTrace } from '../../src/replay/csv-trace.js';

const root = mkdtempSync(join(tmpdir(), 'sida-csv-'));
afterAll(() => rmSync(root, { recursive: true }));

let files = 0;
function read(content: string | Buffer, expertBytes?: number) {
  const path = join(root, `${files++}.csv`);
  writeFileSync(path, content);
  return readCsvTrace(path, expertBytes);
}

const HEAD = 'turn,phase,step,layer,slot,expert,weight,residency,expert_bytes';
const COMMENTS = [
  '# route_trace v1',
  '# model=/data/a dir/tiny.gguf arch=tiny n_layer=2 n_expert=4 n_expert_used=2',
  '# layer=0 expert_bytes=100 dense_bytes=7',
  '# layer=1 expert_bytes=200 dense_bytes=7',
];
/** A prompt of two tokens, of which the last layer saw one; then two steps. */
const ROWS = [
  '0,0,0,0,0,3,0.9,0,100',
  '0,0,0,0,1,0,0.1,0,100',
  '0,0,1,0,0,3,0.8,0,0',
  '0,0,1,0,1,2,0.2,0,100',
  '0,0,1,1,0,1,1,0,200',
  '0,1,2,0,0,1,1,1,0',
  '0,1,2,1,0,3,1,1,0',
  '0,1,3,0,0,0,1,1,0',
  '0,1,3,1,0,0,1,1,0',
];
const text = (rows = ROWS, head = HEAD, comments = COMMENTS) => `${[...comments, head, ...rows].join('\n')}\n`;

describe('a route_trace CSV', () => {
  it('becomes turns of layers: a prompt in one batch, then a step each', () => {
    const trace = read(text());
    expect(trace).toEqual({
      model: 'tiny.gguf',
      layers: ['0', '1'],
      experts: 4,
      expertBytes: [100, 200],
      batches: [
        { passes: [{ phase: 'prefill', tokens: 2, visits: [[0, 2, 3], [5]], choices: [[1, 1, 2], [1]] }] },
        { passes: [{ phase: 'decode', tokens: 1, visits: [[1], [7]], choices: [[1], [1]] }] },
        { passes: [{ phase: 'decode', tokens: 1, visits: [[0], [4]], choices: [[1], [1]] }] },
      ],
    });
    expect(read(gzipSync(text()))).toEqual(trace);
    expect(read(text(ROWS, HEAD, [])).batches).toEqual(trace.batches);
  });

  it.each([
    ['no number', ['0,0,0,0,0,x,1,0,0'], 'line 6: column expert: expected a whole number, found "x"'],
    ['no rows', [], 'expected rows of routed experts, found none'],
  ])('is refused with %s', (_, rows, message) => {
    expect(() => read(text(rows))).toThrow(message);
  });

  it('is refused without its columns or without bytes', () => {
    expect(() => read(text(ROWS, 'turn,step,layer'))).toThrow('line 5: expected a header with the columns turn, phase');
    const bare = ROWS.map((row) => row.replace(/\d+$/, '0'));
    expect(() => read(text(bare, HEAD, []))).toThrow('tells the expert_bytes of layer 0');
    expect(read(text(bare, HEAD, []), 64).expertBytes).toEqual([64, 64]);
  });
});
