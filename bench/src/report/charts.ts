/** Line charts as SVG text, without a browser. */
import type { TopLevelSpec } from 'vega-lite';

export interface LineChart {
  title: string;
  subtitle: string;
  rows: { x: number; y: number; series: string }[];
  x: string;
  y: string;
  /** Of x; default: as the values need. */
  domain?: [number, number];
}

/** Okabe and Ito's colours, then others that differ from them. */
const COLOURS = [
  ...['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000', '#8c564b'],
  ...['#999999', '#6a51a3', '#7f7f00', '#17becf', '#e377c2', '#b8860b', '#f0e442', '#1b9e77'],
];

export function lineChart({ title, subtitle, rows, x, y, domain }: LineChart): TopLevelSpec {
  const [series, field] = [[...new Set(rows.map((row) => row.series))], 'series'];
  return {
    width: 520,
    height: 300,
    background: 'white',
    title: { text: title, subtitle, anchor: 'start', fontSize: 15 },
    data: { values: rows },
    mark: { type: 'line', point: { size: 45, filled: true }, strokeWidth: 2 },
    encoding: {
      x: { field: 'x', type: 'quantitative', axis: { title: x }, ...(domain && { scale: { domain } }) },
      y: { field: 'y', type: 'quantitative', axis: { title: y }, scale: { zero: true } },
      color: {
        field,
        type: 'nominal',
        sort: null,
        legend: { title: null, labelLimit: 400 },
        scale: { domain: series, range: COLOURS },
      },
    },
    config: { font: 'Helvetica, Arial, sans-serif' },
  };
}

export async function renderSvg(spec: TopLevelSpec): Promise<string> {
  // Loading them takes a moment that commands without a chart need not spend.
  const [{ compile }, { parse, View }] = await Promise.all([import('vega-lite'), import('vega')]);
  const view = new View(parse(compile(spec).spec), { renderer: 'none' });
  try {
    return await view.toSVG();
  } finally {
    view.finalize();
  }
}
