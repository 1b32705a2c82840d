import { describe, expect, it } from 'vitest';
import { type BenchFile, type MeasurementSummary, summarize } from '../../src/report/bench-file.js';
import { targetsSection } from '../../src/report/targets-section.js';
import { fitsName } from '../../src/scenarios/name-pattern.js';
import type { TaskFidelity } from '../../src/studies/task-fidelity.js';
import { resultOf } from '../support/fixture.js';

const FILE = summarize(resultOf(), { fidelity: [], dependency: [] });

const RECORDED = { command: 'node script.mjs', commit: 'abc1234', isa: 'avx2' };

const of = (target: string, file: Partial<BenchFile> = {}) =>
  targetsSection({ ...FILE, ...file }, {}).tables[0]!.rows.filter(([name]) => name === target);

/** The measurements of one system changed. */
const changed = (system: string, changes: Partial<MeasurementSummary>, name = '') =>
  FILE.measurements.map((one) =>
    one.system === system && one.name.startsWith(name) ? { ...one, ...changes } : one,
  );

const patternsOf = (command: string) => [...command.matchAll(/--only '([^']+)'/g)].map(([, name]) => name!);

describe('hash hits', () => {
  const source = (
    model: string,
    data: TaskFidelity['data'],
    hitNames: [string, string],
    lstm: number[],
    token: number[],
  ): TaskFidelity => ({
    ...{ model, data, file: data, inputs: 40, tokens: { decoder: 9 }, hitNames },
    ...{ moved: [], labels: null, perplexity: null },
    layers: [
      {
        ...{ layer: 'decoder.0', tokens: 9, alpha: 0.5 },
        functions: {
          lstm: { hits: lstm, alphaError: 0, unknown: 0 },
          token: { hits: token, alphaError: 0, unknown: 0 },
        },
      },
    ],
  });
  const cells = (fidelity: TaskFidelity[]) => of('P10', { fidelity }).map((row) => row.slice(1, 5));
  const what = 'hash hits of the paper’s network, held-out text';

  it('of several experts a token are judged on text, at k and at 2k', () => {
    const names: [string, string] = ['recall@4', 'recall@8'];
    expect(cells([source('olmoe-mini', 'text', names, [0.77, 0.91], [0.68, 0.85])])).toEqual([
      [`${what}: olmoe-mini, WikiText-2, recall@4`, '≥ 76.0 %', '77.0 %', 'reached'],
      [`${what}: olmoe-mini, WikiText-2, recall@8`, '≥ 92.0 %', '91.0 %', 'missed'],
    ]);
    const other = cells([source('olmoe-mini', 'text', names, [0.75, 0.93], [0.68, 0.85])]);
    expect(other.map((row) => row[3])).toEqual(['missed', 'reached']);
  });

  it('of one expert a token are judged on tasks alone, halfway to 100 %', () => {
    const names: [string, string] = ['top-1', 'top-3'];
    const hits = [0.7, 0.8, 0.79];
    const own = (data: TaskFidelity['data']) => source('switch-mini', data, names, hits, [0.4, 0.5, 0.6]);
    expect(cells([own('sst2'), own('text')])).toEqual([
      [`${what}: switch-mini, SST-2, top-1`, '≥ 70.0 %', '70.0 %', 'reached'],
      [`${what}: switch-mini, SST-2, top-3`, '≥ 80.0 %', '79.0 %', 'missed'],
    ]);
  });

  it('name the study that measures them', () => {
    const [row] = of('P10', { fidelity: [source('olmoe-mini', 'text', ['recall@4', 'recall@8'], [1, 1], [0, 0])] }); // biome-ignore format: one line
    expect(row!.at(-1)).toBe("`npm run bench -- --data DIR --only 'olmoe-mini/text/fidelity'`");
  });
});

describe('what hash building takes away', () => {
  // Every system computes for 60 ms of the fixture's passes.
  const cells = (measurements = FILE.measurements) => of('P9', { measurements })[1]!.slice(3, 7);

  it('is computing time over that with tables that are read, waiting left out', () => {
    expect(cells()).toEqual(['0.0 % in 4 rows', 'reached', '10', '–']);
    const slower = changed('lstm', { passSeconds: 0.0818 });
    expect(cells(slower).slice(0, 2)).toEqual(['3.0 % in 4 rows', 'missed']);
    expect(cells(changed('lstm', { passSeconds: 0.0818, stallSeconds: 0.0218 }))[1]).toBe('reached');
  });

  it('is what the row of its own budget adds', () => {
    const both = changed('lstm', { passSeconds: 0.083 }).map((one) =>
      one.system === 'replay' ? { ...one, passSeconds: 0.082 } : one,
    );
    expect(cells(both).slice(0, 2)).toEqual(['1.6 % in 4 rows', 'reached']);
  });

  it('is not measured without `replay` beside it', () => {
    const without = FILE.measurements.filter(({ system }) => system !== 'replay');
    expect(cells(without)[1]).toBe('not measured');
  });
});

describe('quantized experts', () => {
  const result = (model: string, task: string, lost: number) => ({
    ...RECORDED,
    ...{ model, task },
    runs: [
      { dtype: 'f32', accuracy: 0.94 },
      { dtype: 'int8', accuracy: 0.939 },
      { dtype: 'int4', accuracy: 0.92 },
      { dtype: 'bf16', accuracy: 0.74, control: 'experts of zeros' },
      { dtype: 'bf16', accuracy: 0.61, control: 'random tables' },
    ].map(({ dtype, accuracy, control }) => ({
      ...{ experts: { dtype }, dense: { dtype: dtype === 'f32' ? 'f32' : 'bf16' }, activations: 'f32' },
      ...(control !== undefined && { control }),
      tasks: {
        [task]: {
          inputs: 5600,
          accuracy,
          flipped: 9,
          lost: { mean: lost, low: lost - 0.01, high: lost + 0.01 },
        },
      },
    })),
  });
  const p16 = (quantized: ReturnType<typeof result>[]) =>
    targetsSection(FILE, { quantized })
      .tables[0]!.rows.filter(([name]) => name === 'P16')
      .map((row) => row.slice(3, 7));

  it('are judged on the model whose experts matter', () => {
    const [mini, words] = [result('switch-mini', 'sst2', 0.005), result('switch-words', 'category', 0.2)];
    const controls = 'experts of zeros 74.00 %, random tables 61.00 %';
    const expected = [
      [
        '−0.10 points at worst of 1 (switch-words, categories of nouns, f32 94.00 %)',
        'reached',
        '5600',
        controls,
      ],
      [
        '−2.00 points at worst of 1 (switch-words, categories of nouns, f32 94.00 %)',
        'missed',
        '5600',
        controls,
      ],
    ];
    expect(p16([mini, words])).toEqual(expected);
    expect(p16([words, mini])).toEqual(expected);
    expect(p16([mini]).map((row) => row[1])).toEqual(['cannot tell', 'cannot tell']);
    expect(p16([]).map((row) => row[1])).toEqual(['not measured', 'not measured']);
  });
});

describe('the defaults beside no prediction', () => {
  const slower = (mean: number) => ({ mean, low: mean - 0.02, high: mean + 0.02 });
  const p17 = (...defaults: number[]) =>
    targetsSection(FILE, {
      governed: [
        {
          ...RECORDED,
          ...{ model: 'switch-words', task: 'category' },
          rows: defaults.map((mean, at) => ({
            ...{ budget: `${10 + at} %`, requests: 1200 },
            ...{ defaults: slower(mean), ungoverned: slower(0.2), again: slower(0) },
          })),
        },
      ],
    })
      .tables[0]!.rows.find(([name, what]) => name === 'P17' && what!.startsWith('time'))!
      .slice(3, 7);

  it('reach the target where no row is surely slower, whatever another start of no prediction shows', () => {
    expect(p17(0.02)).toEqual([
      'switch-words 10 %, disk 1.02× (1.00× to 1.04×)',
      'reached',
      '1200',
      'none again: switch-words 10 %, disk 1.00× (0.98× to 1.02×); without the governor: switch-words 10 %, disk 1.20× (1.18× to 1.22×)',
    ]);
    expect(p17(0.01, 0.03)[1]).toBe('missed');
    expect(p17()[1]).toBe('not measured');
  });
});

describe('servers that generate side by side', () => {
  const ratio = (mean: number) => ({ mean, low: mean - 0.05, high: mean + 0.05 });
  const rowOf = (target: string, beginning: string, overLru: number, overNone: number, truth = 1.4) =>
    targetsSection(FILE, {
      decodeSystems: {
        ...RECORDED,
        ...{ model: 'olmoe-mini', budget: '25%' },
        rows: [
          { system: 'defaults', overNone: ratio(overNone), overLru: ratio(overLru) },
          { system: 'none', overNone: null, overLru: ratio(1.1) },
          { system: 'true tables', overNone: ratio(1.2), overLru: ratio(truth) },
          { system: 'none, again', overNone: ratio(1), overLru: ratio(1.1) },
        ].map((own) => ({ link: '12GB/s', tokens: 900, ...own })),
      },
    })
      .tables[0]!.rows.find(([name, what]) => name === target && what!.startsWith(beginning))!
      .slice(3, 7);

  it('gain a share over LRU of what true tables gain, which `none` gains a part of', () => {
    expect(rowOf('P8', 'decoding', 1.2, 1)).toEqual([
      'olmoe-mini, 12GB/s: 50 % (1.20× (1.15× to 1.25×) of LRU, true tables 1.40× (1.35× to 1.45×))',
      'missed',
      '900 tokens',
      'none: 12GB/s 25 %',
    ]);
    expect(rowOf('P8', 'decoding', 1.3, 1)[1]).toBe('reached');
    expect(rowOf('P8', 'decoding', 1.1, 1, 1.14).slice(0, 2)).toEqual([
      '–; true tables themselves gain too little, 1.14× (1.09× to 1.19×) of LRU',
      'cannot tell',
    ]);
  });

  it('are a cell of the grid that the defaults must not slow down', () => {
    expect(rowOf('P17', 'time', 1.2, 1).slice(0, 2)).toEqual([
      'olmoe-mini with padded experts 25%, 12GB/s 1.00× (0.95× to 1.05×)',
      'reached',
    ]);
    expect(rowOf('P17', 'time', 1.2, 0.9)[1]).toBe('missed');
  });
});

describe('looking ahead', () => {
  const slower = (mean: number) => ({ mean, low: mean - 0.02, high: mean + 0.02 });
  /** Two seconds over a link of 2 GB/s carry `gigabytes`. */
  const p22 = (gigabytes: number, ...means: number[]) =>
    targetsSection(FILE, {
      lookAhead: [
        {
          ...RECORDED,
          ...{ model: 'olmoe-padded', linkBandwidth: '2GB/s', requests: 80 },
          rows: means.flatMap((mean, at) =>
            [
              { layers: 0, slower: null },
              { layers: 1, slower: slower(-0.5) },
              { layers: 2, slower: slower(mean) },
              { layers: 0, slower: slower(0) },
            ].map((own) => ({ budget: `${10 + at}%`, seconds: 2, bytes: gigabytes * 1e9, ...own })),
          ),
        },
      ],
    })
      .tables[0]!.rows.filter(([name]) => name === 'P22')
      .map((cells) => cells.slice(3, 7));

  it('reaches the target where two layers ahead save 9 % in every row, and shows a second start without', () => {
    const [idle, busy] = p22(2, -0.1);
    expect(idle).toEqual([
      'olmoe-padded 10%, 2GB/s, idle 50 %: 10.0 % (8.0 % to 12.0 %) saved',
      'reached',
      '80',
      'without, again: olmoe-padded 10%, 2GB/s 0.0 % (−2.0 % to 2.0 %)',
    ]);
    expect(busy![1]).toBe('not measured');
    expect(p22(2, -0.1, -0.05)[0]![1]).toBe('missed');
    expect(p22(2)[0]![1]).toBe('not measured');
  });

  it('may not surely lose time where the link is busy', () => {
    expect(p22(3.8, 0.01).map((row) => row[1])).toEqual(['not measured', 'reached']);
    expect(p22(3.8, 0.03)[1]![1]).toBe('missed');
  });
});

describe('the commands', () => {
  const command = (measurements = FILE.measurements) => of('P6', { measurements })[0]!.at(-1)!;

  it('measure the row that decides and what it is compared with', () => {
    const worst = changed('lstm', { bytesMoved: 9e6 }, 'switch-mini/sst2/40%/simulated');
    expect(command(worst)).toBe(
      "`npm run bench -- --data DIR --only 'switch-mini/sst2/40%/simulated-12GBps/lstm' --only 'switch-mini/sst2/40%/simulated-12GBps/replay'`",
    );
  });

  it('never ask for a system of every scenario', () => {
    for (const measurements of [FILE.measurements, []]) {
      for (const target of ['P6', 'P7', 'P8', 'P9']) {
        // P8 of decoding is measured by a script, which has no patterns.
        for (const row of of(target, { measurements }).filter((own) =>
          own.at(-1)!.includes('npm run bench'),
        )) {
          const patterns = patternsOf(row.at(-1)!);
          expect(patterns.length, target).toBeGreaterThan(0);
          for (const pattern of patterns) {
            expect(fitsName(pattern, 'switch-base-128-int8/sst2/20%/disk/lstm'), pattern).toBe(false);
          }
        }
      }
    }
  });
});

describe('decoding without a predictor', () => {
  const RECORDED_STEPS = { tokens: 128, passes: 128, needs: 100 };
  const run = (policy: string, lookahead: number | null, hits: number) => ({
    ...{ policy, lookahead },
    decode: { misses: 90 - hits, prefetches: 10, needs: 100 },
  });
  const p20 = (...none: number[]) =>
    targetsSection(FILE, {
      replayed: none.map((hits, at) => ({
        ...RECORDED,
        shared: {
          ...{
            model: `Model-${at}-Q4_K_M.gguf`,
            phases: { prefill: RECORDED_STEPS, decode: RECORDED_STEPS },
          },
          caches: [
            {
              cache: '10%',
              slots: 10,
              policies: [
                run('lru', null, 50),
                run('none', null, hits),
                run('shuffled-tables', 1, 45),
                run('true-tables-on-demand', 1, 70),
                run('belady', 1, 72),
              ],
            },
          ],
        } as never,
      })),
    })
      .tables[0]!.rows.find(([name]) => name === 'P20')!
      .slice(3, 7);

  it('reaches the target where it gains 70 % of what knowing the next token gains, and shows wrong tables', () => {
    expect(p20(65)).toEqual([
      'Model-0 10%: 75 % (50.0 % to 65.0 %, known 70.0 %)',
      'reached',
      '128',
      'shuffled tables: Model-0 10% −25 %',
    ]);
    expect(p20(65, 60)[1]).toBe('missed');
    expect(p20()[1]).toBe('not measured');
  });
});

describe('a decoder that does not fit', () => {
  const rowsOf = (target: string, { bytes = 3000, ms = 275, none = 60 }) => {
    const prefill = (took: number, moved: number) => ({ ms: took, bytes: moved, needed: 40, hits: 0 });
    const decode = (hits: number) => ({ ms: 900, bytes: 9000, needed: 100, hits });
    const eviction = {
      ...RECORDED,
      ...{ pack: 'decoder', prompt: 512, steps: 128, slotBytes: 100 },
      // The second chunk's experts take longer to read than the chunk to compute.
      chunks: [
        { ms: 100, bytes: 1000 },
        { ms: 100, bytes: 3000 },
      ],
      rows: [
        {
          ...{ budget: '25%', bytesPerSecond: 20_000 },
          rules: [
            { rule: 'lru', prefill: prefill(500, 4000), decode: decode(40) },
            { rule: 'none', prefill: prefill(ms, bytes), decode: decode(none) },
            { rule: 'known', prefill: prefill(ms, bytes), decode: decode(65) },
          ],
        },
      ],
    };
    return targetsSection(FILE, { eviction })
      .tables[0]!.rows.filter(([name, what]) => name === target && !what!.startsWith('decode hits'))
      .map((row) => row.slice(3, 7));
  };
  const p21 = (bytes: number, ms: number) => rowsOf('P21', { bytes, ms });

  it('generates with a share of the hits that knowing the next token would add to LRU', () => {
    const p20 = (none: number) => rowsOf('P20', { none })[0]!;
    expect(p20(60)).toEqual(['decoder 25%: 80 % (40.0 % to 60.0 %, known 65.0 %)', 'reached', '128', '–']);
    expect(p20(55)[1]).toBe('missed');
  });

  it('reads its prompt in a time that is compared with computing or one read of its experts, and with LRU', () => {
    expect(p21(3000, 275)).toEqual([
      ['decoder 25% 0.75×', 'reached', '512', 'lru: 25% 1.00×'],
      ['decoder 25% 1.10×', 'reached', '512', 'lru: 25% 2.00×'],
    ]);
    expect(p21(4400, 400).map(([, verdict]) => verdict)).toEqual(['missed', 'missed']);
    expect(targetsSection(FILE, {}).tables[0]!.rows.filter(([name]) => name === 'P21')).toHaveLength(2);
  });
});
