// The tables of `bench/placement.mjs`, `bench/placement-workers.mjs` and `bench/placement-redis.mjs`.
import { result, source, table } from './table-format.mjs';

const NAMES = {
  qwen: 'Qwen3-30B-A3B',
  gemma: 'gemma-4-26B-A4B-it',
  gptoss: 'gpt-oss-120b',
  'switch-mini': 'switch-mini, SST-2',
};
const percent = (share) => (100 * share).toFixed(1);
const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length;

/** A ratio over several orders of the requests: the mean, and from where to where. */
function spread(ratios) {
  const [low, high] = [Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(2));
  return `${mean(ratios).toFixed(2)} (${low}–${high})`;
}

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
  'placement-redis': () => {
    const r = result('placement-redis');
    const setups = r.runs.filter(({ system }) => system === 'in turn');
    const rows = setups.map(({ workload, workers, budget, orders: before }) => {
      const own = (system) =>
        r.runs.find(
          (run) =>
            run.workload === workload &&
            run.workers === workers &&
            run.budget === budget &&
            run.system === system,
        ).orders;
      const over = (system) =>
        own(system).map((order, i) => order.bytesPerRequest / before[i].bytesPerRequest);
      const p50 = (system) => `${mean(own(system).map(({ p50Ms }) => p50Ms)).toFixed(0)} ms`;
      const passed = mean(own('experts').map(({ passed: count }) => count)) / r.requests;
      return [
        workload,
        workers,
        budget,
        `${(mean(before.map(({ bytesPerRequest }) => bytesPerRequest)) / 2 ** 20).toFixed(2)} MiB`,
        spread(over('any')),
        `**${spread(over('experts'))}**`,
        `${(100 * passed).toFixed(0)} %`,
        `${p50('in turn')} / ${p50('any')} / ${p50('experts')}`,
      ];
    });
    const head = [
      'requests',
      'workers',
      'budget',
      'in turn: moved a request',
      'any: bytes over in turn',
      'experts: bytes over in turn',
      'passed on',
      'p50: in turn / any / experts',
    ];
    return `${table(head, rows)}\n\n${source(r)}`;
  },
  'placement-workers': () => {
    const r = result('placement-workers');
    const [base, ...systems] = [...new Set(r.runs.map(({ system }) => system))];
    const setups = r.runs.filter(({ system }) => system === base);
    const rows = setups.map(({ workload, workers, share, orders: before }) => {
      const cells = systems.map((name) => {
        const { orders } = r.runs.find(
          (run) =>
            run.workload === workload &&
            run.workers === workers &&
            run.share === share &&
            run.system === name,
        );
        const over = (of) => orders.map((order, i) => of(order) / of(before[i]));
        const [time, p99] = [({ endMs }) => endMs, ({ p99Ms }) => p99Ms].map((of) =>
          mean(over(of)).toFixed(2),
        );
        return `**${spread(over(({ loads }) => loads))}** / ${time} / ${p99}`;
      });
      const bytes = mean(before.map(({ bytesPerRequest }) => bytesPerRequest));
      const { needed } = r.workloads.find((one) => one.workload === workload);
      return [
        `${workload} (${needed.toFixed(0)} experts each)`,
        workers,
        `${100 * share} %`,
        `${(bytes / 2 ** 20).toFixed(2)} MiB`,
        ...cells,
      ];
    });
    const head = ['requests', 'workers', 'slots of all experts', `${base}: moved a request`, ...systems];
    return `${table(head, rows)}\n\n${source(r)}`;
  },
};
