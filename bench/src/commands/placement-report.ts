/** What `sida bench placement` prints for a person. */

import { formatTable } from '../../../dist/cli/table.js';
import type { PlacementReport } from '../placement/compare-placements.js';

export function describePlacement(report: PlacementReport): string {
  const { trace, model, layers, experts, batchTokens, learned, measured, joined, strategies } = report;
  const batches = joined.least === joined.most ? joined.most : `${joined.least} to ${joined.most}`;
  const percent = (share: number) => (100 * share).toFixed(1);
  const rows = strategies.map((own) => [
    String(own.devices),
    own.strategy,
    percent(own.maxLoad),
    percent(own.meanMaxLoad),
    percent(own.averageMaxLoad),
    percent(1 / own.devices),
    `${(own.averageMaxLoad * own.devices).toFixed(2)}×`,
  ]);
  const head = [
    'devices',
    'strategy',
    'max load %',
    'mean of layers',
    'average max load %',
    'ideal %',
    '/ ideal',
  ];
  return [
    [
      `${trace}${model === null ? '' : ` (${model})`}`,
      `${layers} layers of ${experts} experts; placed by the first ${learned} recorded batches, measured on the ${measured} behind them`,
      `a layer is measured on ${batches} batches of ${batchTokens} tokens or more`,
      'load: share of a batch that a device gets. max load: the largest of all batches, in the layer where it is largest,',
      'and the mean of the layers; average max load: the largest of each batch, averaged over batches and layers.',
    ].join('\n'),
    formatTable('rlrrrrr', [head, ...rows]),
  ].join('\n\n');
}
