/** Chart specifications that several sections share. A system has the same colour throughout the report. */
import type { TopLevelSpec } from 'vega-lite';
import { SYSTEMS } from '../scenarios/systems.js';

/** Okabe and Ito's colours, then others that differ from them. */
const COLOURS = [
  '#000000', '#8c564b', '#56b4e9', '#17becf', '#e69f00', '#999999', '#f0e442', '#b8860b', '#cc79a7',
  '#6a51a3', '#0072b2', '#009e73', '#e7298a', '#7f7f00', '#d55e00', '#bdbdbd', '#1b9e77', '#a6761d',
]; // biome-ignore format: a palette

/** Not a system: the bound of all policies. */
const BELADY: [string, string] = ['belady', '#000000'];

/** Colours of the systems that occur, in the order of the system table. */
export function systemColour(names: Iterable<string>): { scale: { domain: string[]; range: string[] } } {
  const present = new Set(names);
  const named = SYSTEMS.map(({ name }, i): [string, string] => [name, COLOURS[i]!]);
  const known = [...named, BELADY].filter(([name]) => present.has(name));
  return { scale: { domain: known.map(([name]) => name), range: known.map(([, colour]) => colour) } };
}

export interface LineChart {
  title: string;
  subtitle: string;
  rows: { x: number; y: number; series: string }[];
  x: { title: string; scale?: object; format?: string; values?: number[] };
  y: { title: string; scale?: object; format?: string };
  legend: string;
  /** A colour for each series; default: the colours of the systems. */
  colour?: object;
}

export const SIZE = { width: 520, height: 300 };

export function lineChart({ title, subtitle, rows, x, y, legend, colour }: LineChart): TopLevelSpec {
  return {
    ...SIZE,
    title: { text: title, subtitle },
    data: { values: rows },
    mark: { type: 'line', point: { size: 45, filled: true }, strokeWidth: 2 },
    encoding: {
      x: {
        field: 'x',
        type: 'quantitative',
        ...(x.scale && { scale: x.scale }),
        axis: {
          title: x.title,
          ...(x.format && { format: x.format }),
          ...(x.values && { values: x.values }),
        },
      },
      y: {
        field: 'y',
        type: 'quantitative',
        ...(y.scale && { scale: y.scale }),
        axis: { title: y.title, ...(y.format && { format: y.format }) },
      },
      color: {
        field: 'series',
        type: 'nominal',
        legend: { title: legend, labelLimit: 400 },
        ...(colour ?? systemColour(rows.map(({ series }) => series))),
      },
    },
  } as TopLevelSpec;
}

export interface BarChart {
  title: string;
  subtitle: string;
  rows: { group: string; series: string; value: number }[];
  groupTitle: string;
  valueTitle: string;
  legend: string;
  format?: string;
  log?: boolean;
  colour?: object;
}

/** Bars side by side in each group. */
export function barChart({
  title,
  subtitle,
  rows,
  groupTitle,
  valueTitle,
  legend,
  format,
  log,
  colour,
}: BarChart): TopLevelSpec {
  // biome-ignore format: one line
  return {
    // Leaves space for a group's name if it has few bars.
    width: { step: Math.max(18, Math.ceil(100 / new Set(rows.map(({ series }) => series)).size)) },
    height: SIZE.height,
    title: { text: title, subtitle },
    data: { values: rows },
    mark: { type: 'bar' },
    encoding: {
      x: { field: 'group', type: 'nominal', sort: null, axis: { title: groupTitle, labelAngle: rows.some(({ group }) => group.length > 12) ? -20 : 0, labelLimit: 400 } },
      xOffset: { field: 'series', sort: null },
      y: {
        field: 'value',
        type: 'quantitative',
        ...(log && { scale: { type: 'symlog' } }),
        axis: { title: valueTitle, ...(format && { format }) },
      },
      color: {
        field: 'series',
        type: 'nominal',
        sort: null,
        legend: { title: legend, labelLimit: 400 },
        ...(colour ?? systemColour(rows.map(({ series }) => series))),
      },
    },
  } as TopLevelSpec;
}
