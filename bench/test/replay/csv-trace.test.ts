import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { readCsvTrace } from '../../src/replay/csv-trace.js';
import { layerOf, sizeOf } from '../../src/replay/routing-trace.js';

const root = mkdtempSync(join(tmpdir(), 'sida-csv-'));
afterAll(() => rmSync(root, { recursive: true }));

let files = 0;
function fileOf(content: string | Buffer): string {
  const path = join(root, `${files++}.csv`);
  writeFileSync(path, content);
  return path;
}

const HEAD = 'turn,phase,step,layer,slot,expert,weight,residency,expert_bytes';
const COMMENTS = [
  '# route_trace v1',
  '# model=/data/a, "quoted" dir/tiny.gguf arch=tiny n_layer=2 n_expert=4 n_expert_used=2',
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
const text = (rows = ROWS, head = HEAD, comments = COMMENTS) =>
  `${[...comments, head, ...rows].join('\n')}\n`;
const read = (content: string | Buffer, expertBytes?: number) =>
  readCsvTrace(fileOf(content), { expertBytes });

describe('a route_trace CSV', () => {
  it('becomes turns of layers: a prompt in one batch, then a step each', async () => {
    const trace = await read(text());
    expect(trace).toEqual({
      name: expect.stringContaining(root),
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
    expect(sizeOf(trace, 'prefill')).toEqual({ tokens: 2, passes: 1, needs: 4 });
    expect(layerOf(trace, 1)).toMatchObject({
      layers: ['1'],
      expertBytes: [200],
      batches: [
        { passes: [{ visits: [[1]], choices: [[1]] }] },
        { passes: [{ visits: [[3]] }] },
        { passes: [{ visits: [[0]] }] },
      ],
    });
  });

  it('may be gzipped, with a byte order mark and CRLF, without comments, its columns in any order', async () => {
    const { batches } = await read(text());
    expect((await read(gzipSync(text()))).batches).toEqual(batches);
    expect((await read(`\uFEFF${text().replaceAll('\n', '\r\n')}\r\n`)).batches).toEqual(batches);
    const plain = await read(text(ROWS, HEAD, []));
    expect([plain.model, plain.experts, plain.expertBytes, plain.batches]).toEqual([
      null,
      4,
      [100, 200],
      batches,
    ]);
    const swapped = ROWS.map((row) => row.split(',').reverse().join());
    expect((await read(text(swapped, HEAD.split(',').reverse().join()))).batches).toEqual(batches);
  });

  it('may have several turns, and layers that have no experts', async () => {
    const rows = [
      '0,1,5,3,0,1,1,0,8',
      '1,0,0,3,0,1,1,0,8',
      '1,0,1,3,0,2,1,0,8',
      '1,1,2,3,0,0,1,0,8',
      '1,1,3,3,0,0,1,0,8',
    ];
    const { layers, batches } = await read(text(rows, HEAD, []));
    expect(layers).toEqual(['3']);
    expect(batches.map(({ passes }) => passes[0]!.visits)).toEqual([[[1]], [[1, 2]], [[0]], [[0]]]);
  });

  it.each([
    ['too few columns', [...ROWS, '0,1,4,0'], 'line 15: expected 9 columns, found 4'],
    ['no number', ['0,0,0,0,0,x,1,0,0'], 'line 6, column expert: expected a whole number, found "x"'],
    ['an empty measurement', ['0,0,,0,0,1,1,0,0'], 'line 6, column step: expected a whole number, found ""'],
    ['a negative number', ['0,0,0,-1,0,1,1,0,0'], 'column layer: expected a whole number, found "-1"'],
    ['another phase', ['0,2,0,0,0,1,1,0,0'], 'column phase: expected 0 (prefill) or 1 (decode), found 2'],
    [
      'an expert too many',
      ['0,0,0,0,0,4,1,0,0'],
      'column expert: expected less than the 4 experts of a layer, found 4',
    ],
    [
      'a turn that was over',
      ['1,1,0,0,0,1,1,0,0', '0,1,0,0,0,1,1,0,0'],
      'line 7, column turn: expected 1 or later, found 0',
    ],
    [
      'a step that was over',
      ['0,1,5,0,0,1,1,0,0', '0,1,4,0,0,1,1,0,0'],
      'line 7, column step: expected 5 or later, found 4',
    ],
    [
      'a layer that had its turn',
      ['0,1,5,1,0,1,1,0,0', '0,1,5,0,0,1,1,0,0'],
      'line 7, column layer: expected 1 or a later layer in step 5, found 0',
    ],
    ['no rows', [], 'expected rows of routed experts, found none'],
  ])('is refused with %s', async (_, rows, message) => {
    await expect(read(text(rows))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining(message),
    });
  });

  it('is refused without its columns, without bytes, torn, or when it is no text', async () => {
    await expect(read(text(ROWS, 'turn,step,layer'))).rejects.toThrow(
      /line 5: expected a header with the columns turn, phase, .* found "turn,step,layer"; phase, expert missing/,
    );
    await expect(read('# layer=0 expert_bytes=many\n')).rejects.toThrow(
      'line 1: expected a whole number as expert_bytes, found "many"',
    );
    const bare = ROWS.map((row) => row.replace(/\d+$/, '0'));
    await expect(read(text(bare, HEAD, []))).rejects.toThrow(
      'tells the expert_bytes of layer 0; give --expert-bytes',
    );
    expect((await read(text(bare, HEAD, []), 64)).expertBytes).toEqual([64, 64]);
    await expect(read(gzipSync(text()).subarray(0, 120))).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('unexpected end of file'),
    });
    await expect(read(Buffer.alloc(1 << 18, 65))).rejects.toThrow(
      'expected lines of at most 65536 bytes, found a longer one',
    );
    await expect(readCsvTrace(join(root, 'none.csv'), {})).rejects.toThrow(
      /Cannot read the trace .*none\.csv: ENOENT/,
    );
  });
});
