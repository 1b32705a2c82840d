/** The parts of a pass as stacked bars, a panel for each way to know the experts. */
import type { TopLevelSpec } from 'vega-lite';
import { PART_NAMES, type PassParts } from '../studies/pass-parts.js';

export interface PartsRun {
  experts: number;
  system: string;
  parts: PassParts;
}

const COLOURS = ['#e69f00', '#0072b2', '#d55e00', '#bdbdbd'];

export function passPartsChart(runs: readonly PartsRun[], subtitle: string): TopLevelSpec {
  const values = runs.flatMap(({ experts, system, parts }) => {
    const all = PART_NAMES.reduce((sum, name) => sum + parts[name], 0);
    return PART_NAMES.map((part, order) => ({
      experts,
      system,
      part,
      order,
      share: (100 * parts[part]) / all,
    }));
  });
  return {
    title: { text: 'What a pass spends its time on, by experts of a layer', subtitle },
    data: { values },
    facet: { field: 'system', sort: null, title: null, header: { labelFontSize: 13, labelPadding: 6 } },
    columns: 3,
    spec: {
      width: 200,
      height: 280,
      mark: 'bar',
      encoding: {
        x: {
          field: 'experts',
          type: 'ordinal',
          title: 'experts of a layer',
          axis: { labelAngle: 0 },
        },
        y: { field: 'share', type: 'quantitative', title: '% of the time', scale: { domain: [0, 100] } },
        color: {
          field: 'part',
          type: 'nominal',
          scale: { domain: [...PART_NAMES], range: COLOURS },
          legend: { title: null },
        },
        order: { field: 'order' },
      },
    },
  } as TopLevelSpec;
}
