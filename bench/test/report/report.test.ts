import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type BenchFile, checkTrees, readBenchFile, summarize } from '../../src/report/bench-file.js';
import { budgetsTable } from '../../src/report/budgets-table.js';
import { batchesTable } from '../../src/report/headline-section.js';
import { htmlReport } from '../../src/report/html.js';
import { markdownTable } from '../../src/report/markdown.js';
import { sectionsOf } from '../../src/report/sections.js';
import { targetsSection } from '../../src/report/targets-section.js';
import { writeReport } from '../../src/report/write-report.js';
import type { DataName } from '../../src/scenarios/scenarios.js';
import type { TaskFidelity } from '../../src/studies/task-fidelity.js';
import { resultOf } from '../support/fixture.js';

const out = mkdtempSync(join(tmpdir(), 'sida-report-'));
afterAll(() => rmSync(out, { recursive: true, force: true }));

const DEPENDENCY = {
  model: 'switch-mini',
  data: 'sst2',
  inputs: 8,
  tokens: 90,
  seed: 1,
  layers: ['encoder.1', 'encoder.3'],
  corruption: [
    { share: 0.5, probes: 40, changed: [0.25, 0.5] },
    { share: 1, probes: 8, changed: [0.5, 0.75] },
  ],
  distance: [
    { least: 1, most: 1, probes: 20, changed: [0.2, 0.3] },
    { least: 2, most: 2, probes: 20, changed: [0.1, 0.2] },
  ],
};

const GATING = {
  commit: 'abc1234',
  machine: 'a machine',
  threads: 2,
  dModel: 768,
  dFf: 3072,
  layers: [
    {
      name: 'switch-mini, encoder.1',
      k: 1,
      experts: 64,
      dtype: 'f32',
      runs: [
        {
          tokens: 16,
          expertsUsed: 12,
          mostTokens: 3,
          dynamicMs: 5,
          dynamicBytes: 100,
          static: [
            { factor: 1.25, capacity: 1, ms: 30, bytes: 400, dropped: 0.25 },
            { factor: 0, capacity: 3, ms: 31, bytes: 1200, dropped: 0 },
          ],
        },
      ],
    },
  ],
};

let file: BenchFile;
let files: string[];
let html: string;
beforeAll(async () => {
  file = summarize(resultOf(), { fidelity: [], dependency: [DEPENDENCY], gating: GATING });
  files = await writeReport(file, out);
  html = readFileSync(join(out, 'report.html'), 'utf8');
});

const section = (id: string) => sectionsOf(file).find((each) => each.id === id)!;
const columnsOf = (id: string, system: string) =>
  section(id).tables[0]!.rows.filter((row) => row[1] === system);

describe('summarize', () => {
  it('takes medians of the rounds and keeps each round’s time', () => {
    const lru = file.measurements.find(({ name }) => name === 'switch-mini/sst2/20%/disk/lru')!;
    expect([lru.wallMs, lru.wallMsOfRounds]).toEqual([100, [100, 110, 90]]);
    expect(lru).not.toHaveProperty('answers');
    expect(lru.agreement).toBe(1);
  });
});

describe('tables', () => {
  it('give throughput, ratios and what was moved', () => {
    const head = section('systems-switch-mini-sst2-disk').tables[0]!.head;
    const [first] = columnsOf('systems-switch-mini-sst2-disk', 'lru');
    const value = (name: string) => first![head.indexOf(name)];
    expect(value('budget')).toBe('40 %');
    expect(value('sentences/s')).toBe('100');
    expect(value('× resident')).toBe('0.50×');
    expect(value('bytes / true tables')).toBe('1.25×');
    expect(value('bytes / Belady')).toBe('1.25×');
    expect(value('bytes / best without prediction')).toBe('1.00×');
    // The resident run takes 50 ms, 5 MB take 2.5 ms of the disk.
    expect(value('time / bound')).toBe('2.00×');
    expect(value('answers')).toBe('identical bits');
  });

  it('end where a measurement moved fewer bytes than any policy can', () => {
    const [first, ...rest] = file.measurements.filter(({ system }) => system === 'lru');
    const beaten = { ...file, measurements: [{ ...first!, bytesMoved: 3e6 }, ...rest] };
    expect(() => sectionsOf(beaten)).toThrow('switch-mini/sst2/40%/disk/lru (0.750 of it)');
    // A result without bounds shows none.
    const old = { ...file, measurements: file.measurements.map(({ leastBytes: _, ...one }) => one) };
    const table = sectionsOf(old).find(({ id }) => id === 'systems-switch-mini-sst2-disk')!.tables[0]!;
    for (const row of table.rows) expect(row[table.head.indexOf('bytes / Belady')]).toBe('–');
  });

  it('say of answers that may differ how many labels are the same', () => {
    expect(columnsOf('systems-switch-mini-sst2-disk', 'predicted')[0]!.at(-1)).toBe('100.0 % the same label');
  });

  it('put what predicts nothing first in the headline, and the paper’s ratios behind', () => {
    const [ours, paper] = section('headlines').tables;
    expect(paper!.rows.map(([, value]) => value)).toEqual(['2.60×', '3.93×', '28 %', '80 %']);
    expect(ours!.head.slice(6, 10)).toEqual([
      'throughput over on-demand LRU',
      'throughput over `--predictor none`',
      'bytes over LRU',
      'throughput over layer streaming',
    ]);
    expect(ours!.rows.map((row) => row.slice(2, 10))).toEqual(
      ['disk', 'simulated link, 12 GB/s'].flatMap((link) =>
        ['40 %', '20 %'].flatMap((budget) => [
          [link, budget, 'lstm', '10 (fewer than 50)', '0.80×', '0.64×', '1.00×', '3.20×'],
          [link, budget, 'predicted', '10 (fewer than 50)', '1.00×', '0.80×', '1.00×', '4.00×'],
          [link, budget, 'paper', '10 (fewer than 50)', '1.00×', '0.80×', '1.00×', '4.00×'],
        ]),
      ),
    );
  });

  it('say how many inputs each row is from', () => {
    for (const { id, tables } of sectionsOf(file).filter((own) => own.id !== 'targets')) {
      for (const { head, rows } of tables) {
        const at = head.findIndex((name) => ['inputs', 'requests answered'].includes(name));
        const measured = /^(systems|headlines|breakdown|rest|element-types)/.test(id) && rows[0]!.length > 2;
        if (measured) expect([id, at >= 0]).toEqual([id, true]);
        if (at >= 0) for (const row of rows) expect(row[at], id).toMatch(/^\d+( \(fewer than \d+\))?$|^–$/);
      }
    }
  });

  it('set static gating over dynamic gating, dropped tokens beside it', () => {
    const { rows } = section('gating').tables[0]!;
    expect(rows.map((row) => row.slice(4))).toEqual([
      ['1.25', '25.0 %', '6.00×', '4.0×'],
      ['drops none', '0.0 %', '6.20×', '12.0×'],
    ]);
  });

  it('become Markdown with their bars escaped', () => {
    expect(markdownTable({ caption: 'c', head: ['a', 'b'], rows: [['1|2', '3']] })).toBe(
      'c:\n\n| a | b |\n| --- | --- |\n| 1\\|2 | 3 |',
    );
  });
});

describe('what it means', () => {
  it('is five sentences from the figures, losses first', () => {
    const { sentences = [] } = sectionsOf(file)[0]!;
    expect(sentences).toHaveLength(5);
    const [exact, routed, moved, building, quality] = sentences;
    expect(exact).toContain('`lstm`; disk; simulated link, 12 GB/s');
    expect(exact).toContain(
      'beside `--predictor none` it is slower in 4 of 4 rows, equal within 10 % in 0 and faster in 0, and beside',
    );
    expect(exact).toContain(
      [
        'on-demand LRU it is slower in 4 of 4 rows, equal within 10 % in 0 and faster in 0, and',
        'beside the best that predicts nothing in the same server slower in 4 of 4 rows, equal within 10 % in 0',
        'and faster in 0; it has from 0.80× (switch-mini',
      ].join(' '),
    );
    expect(routed).toContain('`paper`: beside `--predictor none` it is slower in 4 of 4 rows');
    expect(moved).toContain('more than LRU’s in 0 of 4 rows (1.00×), than those of `--predictor none` in ');
    expect(building).toContain('takes 5.0 % of the passes’ time, more than 5 % in 0 of 4 rows');
    expect(quality).toContain('of 0 figures');
  });

  it('says what was not measured', () => {
    const few = file.measurements.filter(({ system }) => ['resident', 'lru', 'lstm'].includes(system));
    const { sentences = [] } = sectionsOf({ ...file, measurements: few })[0]!;
    expect(sentences[0]).toContain('the throughput beside `--predictor none` is not measured');
    expect(sentences[2]).toContain('over the same planner with true tables not measured');
  });
});

describe('quality', () => {
  const labels = (zeros: number, told: boolean): TaskFidelity => ({
    model: 'switch-mini',
    data: 'sst2',
    file: 'sst2',
    inputs: 400,
    tokens: { encoder: 9 },
    hitNames: ['top-1', 'top-3'],
    layers: [],
    moved: [],
    perplexity: null,
    labels: {
      ...{ labels: ['no', 'yes'], inputs: 400, told, gain: null },
      exact: { accuracy: 0.9, f1: 0.9 },
      zeros: { accuracy: zeros, f1: zeros },
      predicted: [
        {
          ...{ k: 1, accuracy: 0.86, f1: 0.8, fidelity: 0.956, agreement: 0.9, unrouted: 0 },
          ...{ random: { accuracy: 0.72, f1: 0.7 }, way: null },
        },
      ],
    },
  });
  const rowsOf = (fidelity: TaskFidelity) => {
    const sections = sectionsOf({ ...file, fidelity: [fidelity] });
    const table = sections.find(({ id }) => id === 'paper-fidelity')!.tables[0]!;
    const target = sections.find(({ id }) => id === 'targets')!.tables[0]!.rows;
    return {
      ours: table.rows.at(-1)!.slice(2, 8),
      p11: target.find(([name]) => name === 'P11')!,
      sentence: sections[0]!.sentences![4]!,
    };
  };

  it('stands between its controls, with the share of the way', () => {
    const { ours, p11, sentence } = rowsOf(labels(0.5, true));
    expect(ours).toEqual(['400', '90.00 %', '86.00 %', '72.00 %', '50.00 %', '90.0 %']);
    expect(p11.slice(3, 7)).toEqual([
      '90.0 % (predicted 86.00 %, exact 90.00 %)',
      'missed',
      '400',
      'random tables 72.00 %, experts of zeros 50.00 %',
    ]);
    expect(sentence).toContain('of 1 figures of accuracy and perplexity 1 miss 95 % of the way');
    expect(rowsOf(labels(0, true)).p11[4]).toBe('reached');
  });

  it('cannot tell where the controls lie within noise, and has dashes for results without them', () => {
    const { ours, p11 } = rowsOf(labels(0.89, false));
    expect([ours.at(-1), p11[4]]).toEqual(['cannot tell', 'cannot tell']);
    const { zeros: _, told: __, inputs: ___, ...old } = labels(0.5, true).labels!;
    const without = rowsOf({ ...labels(0.5, true), labels: old });
    expect(without.ours.slice(-2)).toEqual(['–', '–']);
    expect(without.p11[4]).toBe('not measured');
    expect(without.sentence).toContain('1 were measured without controls');
  });
});

describe('the targets', () => {
  const rows = (scripts = {}) => targetsSection(file, scripts).tables[0]!.rows;
  const of = (name: string, scripts = {}) => rows(scripts).filter(([target]) => target === name);

  it('are P5 to P13, P16, P17 and P20 to P23, each with a verdict and a command or a dash', () => {
    expect([...new Set(rows().map(([name]) => name))]).toEqual([
      ...['P5', 'P6', 'P7', 'P8', 'P9', 'P10', 'P12', 'P13', 'P16', 'P17', 'P20', 'P21', 'P22', 'P23'],
    ]);
    for (const row of rows()) {
      expect(row).toHaveLength(8);
      expect(['reached', 'missed', 'cannot tell', 'not measured']).toContain(row[4]);
      expect(row[7]).toMatch(/^`.+`$|^–$/);
    }
  });

  it('judge every row at its worst', () => {
    const [bytes] = of('P6');
    expect(bytes!.slice(2, 6)).toEqual([
      '≤ 1.10×',
      '1.25× in 4 rows; over Belady’s bound 1.25× in 4 of them',
      'missed',
      '10',
    ]);
    const [streaming, gained] = of('P8');
    expect(streaming!.slice(3, 5)).toEqual(['3.20× in 4 rows', 'missed']);
    // True tables are as fast as LRU: there is nothing to gain.
    expect(gained!.slice(3, 5)).toEqual(['–', 'not measured']);
    expect(of('P12')[0]!.slice(3, 6)).toEqual(['0 of 30', 'reached', '30 runs']);
  });

  it('leave out rows where true tables gain next to nothing', () => {
    const near = file.measurements.map((one) =>
      one.system === 'replay' ? { ...one, bytesMoved: 4.9e6 } : one,
    );
    const rows = targetsSection({ ...file, measurements: near }, {}).tables[0]!.rows;
    expect(rows.filter(([target]) => target === 'P7').map((row) => row[3])).toEqual(['–', '–']);
    const fast = file.measurements.map((one) => (one.system === 'replay' ? { ...one, wallMs: 50 } : one));
    const [, gained] = targetsSection({ ...file, measurements: fast }, {}).tables[0]!.rows.filter(
      ([target]) => target === 'P8',
    );
    // LRU takes 100 ms, true tables 50, ours 125: a fifth is lost where the throughput could double.
    expect(gained!.slice(3, 5)).toEqual(['−20 % in 4 rows', 'missed']);
  });

  it('count saved bytes only where experts are known to matter', () => {
    const [, four] = of('P7');
    // LRU moves 5 MB, true tables 4 MB, ours 5 MB, at 20 % over both links.
    expect(four!.slice(3, 5)).toEqual(['–; elsewhere 0 % in 2 rows', 'not measured']);
  });

  it('decide by model and task whether experts matter, for a padded model by its checkpoint', () => {
    const study = (model: string, data: TaskFidelity['data'], told: boolean): TaskFidelity => ({
      ...{
        model,
        data,
        file: data,
        inputs: 400,
        tokens: {},
        hitNames: ['top-1', 'top-3'],
        layers: [],
        moved: [],
      },
      perplexity: null,
      labels: {
        ...{ labels: ['a', 'b'], inputs: 400, told, gain: null },
        exact: { accuracy: 0.9, f1: 0.9 },
        zeros: { accuracy: 0.5, f1: 0.5 },
        predicted: [1, 3].map((k) => ({
          ...{ k, accuracy: 0.8, f1: 0.8, fidelity: 0.9, agreement: 0.9, unrouted: 0 },
          ...{ random: { accuracy: 0.6, f1: 0.6 }, way: null },
        })),
      },
    });
    const p7 = (own: Pick<BenchFile, 'fidelity' | 'measurements'>) =>
      targetsSection({ ...file, ...own }, {}).tables[0]!.rows.filter(([target]) => target === 'P7')[1]![3];
    const moved = (model: string, data: DataName) =>
      file.measurements.map((one) => ({ ...one, scenario: { ...one.scenario, model, data } }));
    const mini = moved('switch-mini', 'sst2');
    const counted = '0 % in 2 rows';
    const elsewhere = '–; elsewhere 0 % in 2 rows';
    const mrpc = study('switch-mini', 'mrpc', true);
    expect(p7({ measurements: mini, fidelity: [mrpc, study('switch-mini', 'sst2', false)] })).toBe(elsewhere);
    expect(p7({ measurements: mini, fidelity: [mrpc, study('switch-mini', 'sst2', true)] })).toBe(counted);
    expect(p7({ measurements: moved('switch-mini', 'mrpc'), fidelity: [mrpc] })).toBe(counted);
    const words = [study('switch-words', 'words', true)];
    for (const model of ['switch-words', 'switch-words-padded']) {
      expect(p7({ measurements: moved(model, 'words'), fidelity: words }), model).toBe(counted);
      expect(p7({ measurements: moved(model, 'words'), fidelity: [mrpc] }), model).toBe(elsewhere);
    }
    expect(p7({ measurements: moved('switch-base-8-bf16', 'words'), fidelity: words })).toBe(elsewhere);
  });

  it('cannot tell where true tables save little, and say what was saved of it', () => {
    const told = { ...file.measurements[0]!.scenario };
    const bytes: Record<string, number> = { replay: 4.5e6, lstm: 4.75e6, attention: 4.75e6 };
    const measurements = file.measurements.map((one) => ({
      ...one,
      scenario: { ...one.scenario, model: told.model, data: told.data },
      bytesMoved: bytes[one.system] ?? 5e6,
    }));
    const labels = {
      ...{ labels: ['a', 'b'], inputs: 400, told: true, gain: null },
      exact: { accuracy: 0.9, f1: 0.9 },
      zeros: { accuracy: 0.5, f1: 0.5 },
      predicted: [1, 3].map((k) => ({
        ...{ k, accuracy: 0.8, f1: 0.8, fidelity: 0.9, agreement: 0.9, unrouted: 0 },
        ...{ random: { accuracy: 0.6, f1: 0.6 }, way: null },
      })),
    };
    const fidelity: TaskFidelity = {
      ...{ model: told.model, data: told.data as TaskFidelity['data'], file: '', inputs: 400, tokens: {} },
      ...{ hitNames: ['top-1', 'top-3'], layers: [], moved: [], perplexity: null, labels },
    };
    const [, four] = targetsSection(
      { ...file, measurements, fidelity: [fidelity] },
      {},
    ).tables[0]!.rows.filter(([target]) => target === 'P7');
    expect(four!.slice(3, 5)).toEqual([
      '–; true tables themselves save too little, 10 % in 2 rows, of which 50 %',
      'cannot tell',
    ]);
  });

  it('cannot tell of quantized experts where experts of zeros answer as well', () => {
    const run = (dtype: string, accuracy: number, flipped: number, control?: string) => ({
      ...{ experts: { dtype }, dense: { dtype: dtype === 'f32' ? 'f32' : 'bf16' }, activations: 'f32' },
      ...(control !== undefined && { control }),
      tasks: { sst2: { inputs: 1000, accuracy, flipped } },
    });
    const runs = [run('f32', 0.9, 0), run('int8', 0.897, 5), run('int4', 0.895, 9)];
    const zeros = (accuracy: number, flipped: number) => [
      ...runs,
      run('bf16', accuracy, flipped, 'experts of zeros'),
    ];
    const verdicts = (all: typeof runs) => of('P16', { quantized: [{ runs: all }] }).map((row) => row[4]);
    expect(verdicts(zeros(0.897, 11))).toEqual(['cannot tell', 'cannot tell']);
    expect(verdicts(zeros(0.7, 240))).toEqual(['missed', 'reached']);
    expect(verdicts(runs)).toEqual(['not measured', 'not measured']);
  });

  it('say that another network than the paper’s was trained', () => {
    const trained = {
      minutes: 7,
      rows: [{ layer: 'all', reached: [true, true] }],
      trainedOn: [{ sequences: 5 }],
    };
    expect(of('P13', { trainTime: trained })[0]!.slice(3, 6)).toEqual([
      '7.0 min, all hits reached (another network than the paper’s)',
      'not measured',
      '5',
    ]);
    expect(of('P13', { trainTime: { ...trained, network: 'lstm' } })[0]![4]).toBe('reached');
  });
});

describe('a tree with changes', () => {
  it('is refused unless named', () => {
    const changed = {
      ...file,
      measurements: file.measurements.map((one) => ({ ...one, commits: ['abc1234+changes'] })),
    };
    expect(() => checkTrees(changed, 'bench.json')).toThrow(
      /bench\.json was measured in a tree with changes \(abc1234\+changes\)/,
    );
    expect(() => checkTrees(file, 'bench.json')).not.toThrow();
    expect(htmlReport(changed, [], new Map())).toContain('no commit has');
  });
});

describe('the table of budgets', () => {
  it('names the system of every row, and what predicts nothing beside it', () => {
    const words = file.measurements.map((one) => ({
      ...one,
      scenario: { ...one.scenario, model: 'switch-words', data: 'words' as const },
    }));
    const [table] = budgetsTable({ ...file, measurements: words }).tables;
    expect(table!.rows.map((row) => row.slice(0, 3))).toEqual([
      ['100 %', '`resident`', '10 (fewer than 50)'],
      ['40 %', '`lstm`', '10 (fewer than 50)'],
      ['20 %', '`lstm`', '10 (fewer than 50)'],
    ]);
    expect(table!.rows.at(-1)!.slice(6)).toEqual([
      'identical',
      '1.00×, 1.00×, 1.00×',
      '488 KiB, 488 KiB, 488 KiB',
    ]);
  });
});

describe('the table of batches', () => {
  it('has every system of fewer experts, by batch, beside what predicts nothing', () => {
    const ofBatches = (batch: number) =>
      file.measurements
        .filter(({ scenario }) => scenario.link === 'disk')
        .map((one) => ({ ...one, scenario: { ...one.scenario, batch } }));
    const { head, rows } = batchesTable({ ...file, measurements: [...ofBatches(1), ...ofBatches(8)] });
    const column = (name: string) => rows.map((row) => row[head.indexOf(name)]);
    expect(new Set(column('batch'))).toEqual(new Set(['8']));
    expect(new Set(column('budget'))).toEqual(new Set(['40 %', '20 %']));
    const lstm = rows.filter((row) => row[head.indexOf('system')] === 'lstm');
    expect(lstm.map((row) => row.slice(7, 9))).toEqual([
      ['0.80×', '0.64×'],
      ['0.80×', '0.64×'],
    ]);
  });
});

describe('the report', () => {
  it('is one file that asks for nothing else', () => {
    expect(html).not.toMatch(/<(script|link|img|iframe)\b/);
    expect(html.match(/(?:src|href)="(?!#)[^"]*"/g)).toBeNull();
    expect(html.match(/https?:\/\/(?!www\.w3\.org)/g)).toBeNull();
  });

  it('escapes what it is given', () => {
    expect(html).toContain('sida bench --only &#39;&lt;all&gt;'.replace('&#39;', "'"));
    expect(html).not.toContain('<all>');
  });

  it('tells commit, machine, command, what was left out and what stood in', () => {
    for (const text of [
      'abc1234',
      'a machine',
      'mrpc needs --data DIR',
      'bundled validation set stands in',
    ]) {
      expect(html).toContain(text);
    }
    expect(html).toContain('All 30 compared runs');
  });

  it('says loudly where answers differ', async () => {
    const other = mkdtempSync(join(tmpdir(), 'sida-report-'));
    try {
      await writeReport({ ...file, differing: ['a/measurement'] }, other);
      const text = readFileSync(join(other, 'report.html'), 'utf8');
      expect(text).toContain('<b>Answers differ</b>');
      expect(text).not.toContain('gave the bits');
    } finally {
      rmSync(other, { recursive: true });
    }
  });

  it('has every chart inside and as a file, with axis titles', () => {
    const charts = files.filter((name) => name.endsWith('.svg'));
    expect(charts.length).toBeGreaterThan(10);
    for (const chart of charts) {
      const svg = readFileSync(join(out, chart), 'utf8');
      expect(svg, chart).toMatch(/^<svg/);
      expect(svg, chart).toContain('role-axis-title');
      expect(svg, chart).not.toMatch(/NaN|undefined|Infinity/);
      expect(html).toContain(svg);
    }
  });

  it('names the simulated link on every chart that rests on one', () => {
    const simulated = files.filter((name) => name.endsWith('.svg') && name.includes('simulated'));
    expect(simulated.length).toBeGreaterThan(2);
    for (const chart of simulated) {
      expect(readFileSync(join(out, chart), 'utf8'), chart).toContain('simulated link, 12 GB/s');
    }
  });

  it('is written again from its JSON alone', () => {
    expect(readBenchFile(out)).toEqual(JSON.parse(JSON.stringify(file)));
    expect(() => readBenchFile(join(out, 'none'))).toThrow(/run `sida bench` without --report/);
  });
});
