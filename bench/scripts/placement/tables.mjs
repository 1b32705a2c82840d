// The tables of `bench/scripts/placement/placement.mjs` and of `misses.mjs` beside it.
import { result, source, table } from '../table-format.mjs';

const NAMES = {
  qwen: 'Qwen3-30B-A3B',
  gemma: 'gemma-4-26B-A4B-it',
  gptoss: 'gpt-oss-120b',
  'switch-mini': 'switch-mini, SST-2',
};
const percent = (share) => (100 * share).toFixed(1);

export const placementTables = {
  placement: () => {
    const r = result('placement');
    const rows = r.reports.flatMap(({ name, batchTokens, joined, strategies }) => {
      const batches = joined.least === joined.most ? joined.most : `${joined.least}–${joined.most}`;
      const devices = [...new Set(strategies.map((own) => own.devices))];
      return devices.map((count) => {
        const own = Object.fromEntries(
          strategies.filter((one) => one.devices === count).map((one) => [one.strategy, one]),
        );
        const cells = Object.values(own).map(
          ({ maxLoad, averageMaxLoad }) => `${percent(maxLoad)} / ${percent(averageMaxLoad)}`,
        );
        const change = (strategy) => (own[strategy].averageMaxLoad / own.index.averageMaxLoad).toFixed(2);
        return [
          NAMES[name] ?? name,
          batchTokens === 1 ? 'as recorded' : `${batchTokens} tokens`,
          batches,
          count,
          percent(1 / count),
          ...cells,
          `${change('greedy')}× / ${change('anti-correlation')}×`,
        ];
      });
    });
    const strategies = r.reports[0].strategies
      .slice(0, 4)
      .map(({ strategy }) => `${strategy}: max / average max`);
    const head = ['trace', 'batches', 'measured on', 'devices', 'ideal', ...strategies];
    return `${table([...head, 'average max, greedy / anti-correlation over index'], rows)}\n\n${source(r)}`;
  },
  'placement-misses': () => {
    const r = result('placement-misses');
    const placements = r.reports[0].runs[0].placements.map(({ placedBy }) => placedBy);
    const rows = r.reports.flatMap(({ name, passes, runs }) =>
      runs.map(({ devices, cache, policy, placements: own }) => {
        const of = (placedBy) => own.find((one) => one.placedBy === placedBy);
        const ratio = (placedBy) => (of(placedBy).busiestLoads / of('round-robin').busiestLoads).toFixed(2);
        return [
          NAMES[name] ?? name,
          passes,
          devices,
          cache,
          policy,
          ...own.map(
            ({ loads, needs, worstDevice, busiestLoads }) =>
              `${percent(loads / needs)} / ${percent(worstDevice)} / ${(busiestLoads / passes).toFixed(1)}`,
          ),
          `${ratio('greedy')}× / ${ratio('anti-correlation')}×`,
        ];
      }),
    );
    const head = ['trace', 'passes', 'devices', 'all caches', 'policy', ...placements];
    const busiest = 'busiest device, greedy / anti-correlation over round-robin';
    return `${table([...head, busiest], rows)}\n\n${source(r)}`;
  },
};
