import { describe, expect, it } from 'vitest';
import { type MeasurementSummary, summarize } from '../../src/report/bench-file.js';
import type { LlamaLimited } from '../../src/report/targets/llama-targets.js';
import type { SpeedResults } from '../../src/report/targets/speed-targets.js';
import { targetsSection } from '../../src/report/targets-section.js';
import { resultOf } from '../support/fixture.js';

const FILE = summarize(resultOf(), { fidelity: [], dependency: [] });
const RECORDED = { command: 'node script.mjs', commit: 'abc1234' };
const WITHOUT = 1;
const WITH = 2;

/** Figure, verdict, inputs and control of a target's rows. */
const cells = (target: string, table: number, speed: SpeedResults) =>
  targetsSection(FILE, { speed })
    .tables[table]!.rows.filter(([name]) => name === target)
    .map((row) => row.slice(3, 7));

describe('kernels of an expert', () => {
  const one = (format: string, activations: string, rows: number, ofRead: number) => {
    return { format, activations, rows, operationsPerSecond: 1e9 * rows, ofRead, ofFma: ofRead };
  };
  const all = (share: number) => [
    one('f32', 'f32', 1, 0.95),
    one('f32', 'f32', 8, 0.1),
    one('f32', 'f32', 64, 0.9),
    one('bf16', 'f32', 4, share),
    one('bf16', 'bf16', 4, 0.9),
    one('int8', 'f32', 2, 0.9),
    one('int8', 'int8', 1, 0.9),
    one('int4', 'int8', 1, 0.72),
  ];
  const kernels = (cases: ReturnType<typeof all>, isa = 'avx2') => {
    return { kernels: { ...RECORDED, isa, runs: [{ isa, threads: 2, cases }] } };
  };

  it('are judged by their worst type, on few tokens beside memory and on many beside the multiply-adds', () => {
    const figure = (bf16: string) =>
      `f32 × f32 95 %, bf16 × f32 ${bf16} %, int8 × f32 90 %, int8 × int8 90 %`;
    expect(cells('P1', WITHOUT, kernels(all(0.86)))[0]).toEqual([figure('86'), 'reached', '2 threads', '–']);
    expect(cells('P1', WITHOUT, kernels(all(0.84)))[0]).toEqual([figure('84'), 'missed', '2 threads', '–']);
    expect(cells('P2', WITHOUT, kernels(all(0.86)))).toEqual([
      ['f32 × f32 90 %', 'reached', '2 threads', '–'],
    ]);
  });

  it('are not reached while one type is not measured', () => {
    expect(cells('P1', WITHOUT, kernels(all(0.86)))[1]).toEqual([
      'int4 × int8 72 %, mxfp4 × int8 –',
      'not measured',
      '2 threads',
      '–',
    ]);
    const slow = all(0.86).map((each) => (each.format === 'int4' ? { ...each, ofRead: 0.6 } : each));
    expect(cells('P1', WITHOUT, kernels(slow))[1]![1]).toBe('missed');
  });

  it('are those of the processor: results with AMX are in its table alone', () => {
    expect(cells('P1', WITHOUT, kernels(all(0.9), 'avx512amx'))).toEqual(cells('P1', WITHOUT, {}));
    expect(cells('P2', WITHOUT, {})).toEqual([['f32 × f32 –', 'not measured', '–', '–']]);
    const tiles = [one('bf16', 'bf16', 64, 0.9), one('int8', 'int8', 256, 0.9)].map((each, at) => ({
      ...each,
      ofAmx: 0.65 - at / 10,
    }));
    expect(cells('P2', WITH, kernels(tiles, 'avx512amx'))).toEqual([
      ['bf16 × bf16 65 %, int8 × int8 55 %', 'missed', '2 threads', '–'],
    ]);
  });
});

describe('the encoder beside transformers', () => {
  const peers = (isa: string, peerDtype: string, ...ratios: number[]) => ({
    encoderPeers: {
      isa,
      comparisons: [
        {
          ...RECORDED,
          ...{ dtype: 'bf16', peerDtype, lengths: 'sst2' as const, rounds: 10 },
          activations: peerDtype === 'bfloat16' ? 'bf16' : 'f32',
          classes: ratios.map((ratio) => ({ ratio })),
        },
      ],
    },
  });

  it('is judged by its worst length, against their fastest type of that kind of processor', () => {
    const bf16 = (table: number, speed: SpeedResults) => cells('P3', table, speed).at(table === WITH ? 0 : 1);
    const reached = ['2.60× to 3.00×', 'reached', '2 lengths, 10 rounds', '–'];
    expect(bf16(WITHOUT, peers('avx2', 'float32', 2.6, 3))).toEqual(reached);
    expect(bf16(WITHOUT, peers('avx2', 'float32', 2.4, 3))![1]).toBe('missed');
    expect(bf16(WITHOUT, peers('avx2', 'bfloat16', 3))![1]).toBe('not measured');
    expect(bf16(WITH, peers('avx512amx', 'bfloat16', 2.1))![1]).toBe('reached');
  });
});

describe('REST', () => {
  const run = (overheadP50Ms: number, throughputShare: number) => ({
    batchWaitMs: 2,
    one: { overheadP50Ms },
    overBareP50Ms: overheadP50Ms + 0.05,
    many: { apiCpuMs: 0.3, engineCpuMs: 1.5 },
    bareMany: { cpuMs: 1.2 },
    throughputShare,
  });
  const rest = (...runs: ReturnType<typeof run>[]) => {
    return { rest: { ...RECORDED, isa: 'avx2', clients: 32, requests: 300, rounds: 10, runs } };
  };

  it('is judged in every run', () => {
    expect(cells('P14', WITHOUT, rest(run(0.9, 0.92)))).toEqual([
      ['0.95 ms (batches wait 2 ms)', 'reached', '10 rounds of 300', '–'],
      ['0.90 ms (batches wait 2 ms)', 'reached', '10 rounds of 300', '–'],
      ['0.60 ms (batches wait 2 ms)', 'missed', '10 rounds of 300', '–'],
      ['92 % (batches wait 2 ms)', 'reached', '10 rounds of 300', '–'],
    ]);
    const both = cells('P14', WITHOUT, rest(run(0.9, 0.92), run(1.1, 0.8)));
    expect(both.map(([, verdict]) => verdict)).toEqual(Array(4).fill('missed'));
  });

  it('streams are judged beside one stream and beside the bare engine', () => {
    const runs = [
      { clients: 1, perSecond: 100, barePerSecond: 110, shareOfBare: 0.96 },
      { clients: 8, perSecond: 180, barePerSecond: 220, shareOfBare: 0.94 },
    ];
    const streams = { ...RECORDED, isa: 'avx2', streams: 32, rounds: 3, runs };
    expect(cells('P24', WITHOUT, { streams })).toEqual([
      ['1.80×', 'reached', '3 rounds of 32 streams', 'bare engine: 2.00×'],
      ['1: 96 %, 8: 94 %', 'missed', '3 rounds of 32 streams', '–'],
      ...Array(2).fill(['–', 'not measured', '–', '–']),
    ]);
    const streamsOfPack = { ...streams, streams: 8, runs: [runs[0]!] };
    expect(cells('P24', WITHOUT, { streams, streamsOfPack }).slice(2)).toEqual([
      ['–', 'not measured', '3 rounds of 8 streams', '–'],
      ['1: 96 %', 'reached', '3 rounds of 8 streams', '–'],
    ]);
  });
});

describe('decoding beside llama.cpp and ik_llama.cpp', () => {
  const row = (share: number | null, own: number, peer: number) => ({
    share,
    sida: { prefillTokensPerSecond: 10 * own, decodeTokensPerSecond: own },
    peer: { prefillTokensPerSecond: 5 * peer, decodeTokensPerSecond: peer },
  });
  const killed = (share: number) => ({ ...row(share, 5, 2), peer: null });
  const limitedOf = (file: string, ...rows: LlamaLimited['rows']) => {
    const about = { file, readAheadKib: 128, serve: '', promptTokens: 128, steps: 32 };
    return { llamaLimited: [{ ...RECORDED, isa: 'avx2', ...about, rows }] };
  };
  const limited = (...rows: LlamaLimited['rows']) => limitedOf('olmoe-q8_0.gguf', ...rows);

  it('is judged with all in memory, and at each limit with the read-ahead of the disk', () => {
    const speed = limited(row(null, 3, 2), row(0.5, 5, 2), row(0.2, 5, 2));
    expect(cells('P18', WITHOUT, speed)).toEqual([
      ['1.50× (olmoe-q8_0.gguf)', 'reached', '128 + 32 tokens', '–'],
      ['3.00× (olmoe-q8_0.gguf)', 'reached', '128 + 32 tokens', '–'],
      ...Array(2).fill(['–', 'not measured', '–', '–']),
    ]);
    expect(cells('P19', WITHOUT, speed).map((each) => each.slice(0, 2))).toEqual([
      ['2.50× (olmoe-q8_0.gguf, read-ahead 128 KiB)', 'reached'],
      ['–', 'not measured'],
      ['2.50× (olmoe-q8_0.gguf, read-ahead 128 KiB)', 'missed'],
      ...Array(13).fill(['–', 'not measured']),
    ]);
  });

  it('has rows of its own beside ik_llama.cpp, where that was measured', () => {
    const beside = (share: number, own: number, peer: number) => {
      return { ...row(share, own, 1), ikLlama: row(share, own, peer).peer };
    };
    const speed = limited(beside(0.5, 5, 2), { ...row(0.35, 5, 2), ikLlama: null }, beside(0.2, 5, 2));
    expect(cells('P19', WITHOUT, speed).slice(3, 6)).toEqual([
      ['2.50× (olmoe-q8_0.gguf, read-ahead 128 KiB)', 'reached', '128 + 32 tokens', '–'],
      ['–', 'not measured', '–', '–'],
      ['2.50× (olmoe-q8_0.gguf, read-ahead 128 KiB)', 'missed', '128 + 32 tokens', '–'],
    ]);
  });

  it('has rows for the other files that the targets name', () => {
    const small = limitedOf('olmoe-q4_0.gguf', row(null, 3, 2), row(0.5, 6, 2));
    expect(cells('P18', WITHOUT, small).map(([figure]) => figure)).toEqual([
      ...['–', '–', '1.50× (olmoe-q4_0.gguf)', '3.00× (olmoe-q4_0.gguf)'],
    ]);
    expect(cells('P19', WITHOUT, small)[6]![0]).toMatch(/^3.00×/);
    const large = limitedOf('qwen3-30b-a3b-q4_0.gguf', row(0.6, 5, 2), row(0.25, 5, 4));
    expect(cells('P19', WITHOUT, large).map(([, verdict]) => verdict)).toEqual([
      ...Array(12).fill('not measured'),
      ...['reached', 'missed', 'not measured', 'not measured'],
    ]);
  });

  it('is not judged where the limit killed llama.cpp', () => {
    expect(cells('P19', WITHOUT, limited(killed(0.5)))[0]!.slice(0, 2)).toEqual(['–', 'not measured']);
  });
});

describe('the start', () => {
  const start = (bytes: number, seconds: number) => ({
    ...{ ...RECORDED, isa: 'avx2', bytes, budget: '5GB', rounds: 3 },
    ...{ cold: { firstAnswerMs: 1000 * seconds }, warm: { firstAnswerMs: 2000 } },
  });

  it('is judged with a cold page cache, and only with a large pack', () => {
    const [row] = cells('P26', WITHOUT, { start: start(17e9, 9.5) });
    expect(row).toEqual(['9.5 s (15.8 GiB, 5GB)', 'reached', '3 rounds', 'pack in the page cache: 2.0 s']);
    expect(cells('P26', WITHOUT, { start: start(17e9, 11) })[0]![1]).toBe('missed');
    expect(cells('P26', WITHOUT, { start: start(1e9, 2) })[0]![1]).toBe('not measured');
  });
});

describe('every target of speed', () => {
  it('has a row for each kind of processor, measured or not', () => {
    for (const table of [WITHOUT, WITH]) {
      const names = targetsSection(FILE, {}).tables[table]!.rows.map(([name]) => name!);
      expect([...new Set(names)]).toEqual(['P1', 'P2', 'P3', 'P4', 'P14', 'P18', 'P19', 'P24', 'P26']);
    }
  });
});

describe('long passes', () => {
  const p5 = (changes: Partial<MeasurementSummary>) => {
    const measurements = FILE.measurements.map((one) => ({ ...one, passSeconds: 0.3, ...changes }));
    return targetsSection({ ...FILE, measurements }, {})
      .tables[0]!.rows.find(([name]) => name === 'P5')!
      .slice(3, 7);
  };

  it('are compared with computing or moving their bytes', () => {
    // The resident run takes 50 ms, `lstm` 125 and LRU 100.
    expect(p5({})).toEqual(['2.50× in 4 rows', 'missed', '10', 'lru: 2.00×']);
    // The bytes take 100 ms at 12 GB/s, and 600 at the disk's 2 GB/s.
    expect(p5({ bytesMoved: 1.2e9 })[0]).toBe('0.21× to 1.25× in 4 rows');
  });

  it('are not measured where passes are short', () => {
    expect(p5({ passSeconds: 0.1 })[1]).toBe('not measured');
  });
});
