import { describe, expect, it } from 'vitest';
import { type BenchFile, summarize } from '../../src/report/bench-file.js';
import { targetsSection } from '../../src/report/targets-section.js';
import type { TaskFidelity } from '../../src/studies/task-fidelity.js';
import { resultOf } from '../support/fixture.js';

const FILE = summarize(resultOf(), { fidelity: [], dependency: [] });

const of = (target: string, file: Partial<BenchFile> = {}) =>
  targetsSection({ ...FILE, ...file }, {}).tables[0]!.rows.filter(([name]) => name === target);

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
