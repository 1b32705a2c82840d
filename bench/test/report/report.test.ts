import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type BenchFile, readBenchFile, summarize } from '../../src/report/bench-file.js';
import { markdownTable } from '../../src/report/markdown.js';
import { sectionsOf } from '../../src/report/sections.js';
import { writeReport } from '../../src/report/write-report.js';
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
    expect(value('bytes / Belady')).toBe('1.25×');
    expect(value('bytes / best without prediction')).toBe('1.00×');
    // The resident run takes 50 ms, 5 MB take 2.5 ms of the disk.
    expect(value('time / bound')).toBe('2.00×');
    expect(value('answers')).toBe('identical bits');
  });

  it('say of answers that may differ how many labels are the same', () => {
    expect(columnsOf('systems-switch-mini-sst2-disk', 'predicted')[0]!.at(-1)).toBe('100.0 % the same label');
  });

  it('put the headline ratios over layer streaming beside the paper’s', () => {
    const [paper, ours] = section('headlines').tables;
    expect(paper!.rows.map(([, value]) => value)).toEqual(['2.60×', '3.93×', '28 %', '80 %']);
    expect(ours!.rows.map((row) => row.slice(1, 5))).toEqual(
      ['disk', 'simulated link, 12 GB/s'].flatMap((link) =>
        ['40 %', '20 %'].map((budget) => [link, budget, 'lstm', '4.00×']),
      ),
    );
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
