/** Measured changes of experts beside equation 2 of SiDA-MoE, by the share of the other tokens that was changed. */
import type { TopLevelSpec } from 'vega-lite';
import type { CorruptionChanges, DependencyReport } from '../studies/dependency.js';

const MEASURED = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#56b4e9', '#e69f00'];
const GREYS = ['#bdbdbd', '#999999', '#6b6b6b', '#333333'];

interface Point {
  panel: string;
  share: number;
  changed: number;
  series: string;
}

function pointsOf(panel: string, layers: readonly string[], changes: readonly CorruptionChanges[]): Point[] {
  return changes.flatMap(({ share, changed, equation }) =>
    [
      ...changed.map((value, layer) => ({ series: layers[layer]!, value })),
      ...(equation?.expected ?? []).map((value, c) => ({ series: `equation 2, c = ${c + 1}`, value })),
    ].map(({ series, value }) => ({ panel, share: 100 * share, changed: 100 * value, series })),
  );
}

export function dependencyChart(reports: readonly DependencyReport[]): TopLevelSpec {
  const values = reports.flatMap(({ model, data, layers, corruption, swaps = [] }) => [
    ...pointsOf(`${model}, ${data}: tokens replaced`, layers, corruption),
    ...pointsOf(`${model}, ${data}: places swapped`, layers, swaps),
  ]);
  const series = [...new Set(values.map((point) => point.series))];
  const computed = series.filter((name) => name.startsWith('equation')).sort();
  const measured = series.filter((name) => !name.startsWith('equation'));
  const domain = [...measured, ...computed];
  const range = [
    ...measured.map((_, i) => MEASURED[i % MEASURED.length]!),
    ...computed.map((_, i) => GREYS[i % GREYS.length]!),
  ];
  const dashes = domain.map((name) => (computed.includes(name) ? [4, 3] : [1, 0]));
  const legend = {
    title: null,
    symbolType: 'stroke',
    symbolSize: 500,
    symbolStrokeWidth: 2.5,
    labelLimit: 0,
  };
  return {
    title: { text: 'Tokens sent to another expert, and what a number of critical tokens would give' },
    data: { values },
    facet: { field: 'panel', title: null, sort: null, header: { labelFontSize: 13, labelLimit: 0 } },
    columns: 2,
    spec: {
      width: 340,
      height: 260,
      mark: { type: 'line', point: { size: 30, filled: true } },
      encoding: {
        x: { field: 'share', type: 'quantitative', title: 'changed, % of the other tokens' },
        y: {
          field: 'changed',
          type: 'quantitative',
          title: '% of tokens at another expert',
          scale: { domain: [0, 100] },
        },
        color: { field: 'series', type: 'nominal', scale: { domain, range }, legend },
        strokeDash: { field: 'series', type: 'nominal', scale: { domain, range: dashes }, legend },
      },
    },
  } as TopLevelSpec;
}
