/** Chart of placements: how far the busiest device is from an even share. */
import type { TopLevelSpec } from 'vega-lite';
import { type PlacementReport, STRATEGIES } from '../placement/compare-placements.js';

export function placementChart({ trace, model, batchTokens, strategies }: PlacementReport): TopLevelSpec {
  const values = strategies.flatMap(({ devices, strategy, meanMaxLoad, averageMaxLoad }) => [
    { figure: 'average max load', devices, strategy, over: averageMaxLoad * devices },
    { figure: 'max load, mean of layers', devices, strategy, over: meanMaxLoad * devices },
  ]);
  const size = batchTokens === 1 ? 'batches as recorded' : `batches of ${batchTokens} tokens`;
  return {
    title: { text: 'Load of the busiest device', subtitle: `${model ?? trace.split('/').at(-1)}, ${size}` },
    data: { values },
    facet: { field: 'figure', title: null, header: { labelFontSize: 13, labelPadding: 6 } },
    columns: 2,
    spec: {
      width: 300,
      height: 260,
      mark: { type: 'line', point: true },
      encoding: {
        x: { field: 'devices', type: 'ordinal', title: 'devices', axis: { labelAngle: 0 } },
        y: { field: 'over', type: 'quantitative', title: 'times an even share', scale: { domainMin: 1 } },
        color: { field: 'strategy', type: 'nominal', title: null, scale: { domain: [...STRATEGIES] } },
        strokeDash: { field: 'strategy', type: 'nominal', title: null, scale: { domain: [...STRATEGIES] } },
      },
    },
  };
}
