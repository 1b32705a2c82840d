/** Throughput, bytes and latency against the budget. */

import type { TopLevelSpec } from 'vega-lite';
import { MAIN_SYSTEMS } from '../scenarios/scenarios.js';
import { type BenchFile, type MeasurementSummary, perSecond } from './bench-file.js';
import { barChart, lineChart, SIZE, systemColour } from './charts.js';
import { bytes, DASH, linkTitle, ms, percent, rate, shareName, times } from './format.js';
import {
  type Group,
  groupsOf,
  groupTitle,
  inputsText,
  oneByOne,
  systemTitle,
  usual,
  usualGroups,
} from './groups.js';
import { hashBuilding, overBelady, overBlind, overBound, overTrueTables } from './ratios.js';
import type { Section, Table } from './section.js';

/** Charts over budgets need at least two. */
function hasBudgets({ measurements }: Group): boolean {
  return new Set(measurements.map(({ scenario }) => scenario.share)).size > 2;
}

export function budgetSections(file: BenchFile): Section[] {
  return groupsOf(file.measurements)
    .filter((group) => oneByOne(group) && group.measurements.length > 1)
    .flatMap((group) => [
      ...(hasBudgets(group) ? [throughput(usual(group)), moved(usual(group))] : []),
      ...(group.measurements.length > 2 ? [pareto(usual(group))] : []),
      systemsTable(group, file),
    ]);
}

/** Resident runs as a horizontal line over the budgets. */
function withResident({ measurements, resident }: Group, value: (measurement: MeasurementSummary) => number) {
  const rows = measurements
    .filter(({ system }) => system !== 'resident')
    .map((measurement) => ({
      x: 100 * measurement.scenario.share,
      y: value(measurement),
      series: measurement.system as string,
    }));
  if (resident === undefined) return rows;
  const shares = [100, ...new Set(rows.map(({ x }) => x))];
  return [...rows, ...shares.map((x) => ({ x, y: value(resident), series: 'resident' }))];
}

const BUDGET_AXIS = {
  title: 'share of the experts’ bytes that fits the device, %',
  scale: { domain: [0, 100] },
};

function throughput(group: Group): Section {
  return {
    id: `throughput-${group.key}`,
    title: `Throughput against the budget: ${groupTitle(group)}`,
    beside: 'SiDA-MoE, figure 11',
    about: [],
    chart: lineChart({
      title: 'Throughput against the budget',
      subtitle: groupTitle(group),
      rows: withResident(group, perSecond),
      x: BUDGET_AXIS,
      y: { title: 'sentences per second', scale: { zero: true } },
      legend: 'system',
    }),
    tables: [],
    reading: ['The line of `resident` is a level: it needs 100 % and is drawn across for comparison.'],
  };
}

function moved(group: Group): Section {
  return {
    id: `moved-${group.key}`,
    title: `Bytes moved against the budget: ${groupTitle(group)}`,
    about: [],
    chart: lineChart({
      title: 'Bytes moved to the device for each sentence',
      subtitle: groupTitle(group),
      rows: withResident(group, ({ bytesMoved, sentences }) => bytesMoved / sentences / 2 ** 20),
      x: BUDGET_AXIS,
      y: { title: 'MiB a sentence (symlog scale)', scale: { type: 'symlog' }, format: '~s' },
      legend: 'system',
    }),
    tables: [],
    reading: [],
  };
}

function pareto(group: Group): Section {
  const rows = group.measurements.map((measurement) => ({
    memory: measurement.budgetBytes / 2 ** 20,
    latency: measurement.p50Ms,
    system: measurement.system,
    budget: shareName(measurement.scenario.share),
  }));
  const chart = {
    ...SIZE,
    title: { text: 'Latency against device memory', subtitle: groupTitle(group) },
    data: { values: rows },
    layer: [
      {
        mark: { type: 'point', filled: true, size: 70, opacity: 0.9 },
        encoding: { shape: { field: 'budget', type: 'nominal', sort: null, title: 'budget' } },
      },
    ],
    encoding: {
      x: {
        field: 'memory',
        type: 'quantitative',
        scale: { zero: false, nice: true },
        axis: { title: 'device memory, all counted, MiB', format: ',.0f' },
      },
      y: {
        field: 'latency',
        type: 'quantitative',
        scale: { type: 'log' },
        axis: { title: 'median ms a sentence (log)', format: '~s', tickCount: 6 },
      },
      color: {
        field: 'system',
        type: 'nominal',
        title: 'system',
        ...systemColour(rows.map(({ system }) => system)),
      },
    },
  } as unknown as TopLevelSpec;
  return {
    id: `pareto-${group.key}`,
    title: `Latency against memory: ${groupTitle(group)}`,
    beside: '"Towards MoE Deployment", figure 13',
    about: [],
    chart,
    tables: [],
    reading: [
      'Down and to the left is better; memory is the whole budget: weights, slots, KV cache and workspace.',
    ],
  };
}

const HEAD = [
  'budget',
  'system',
  'inputs',
  'device memory',
  'sentences/s',
  '× resident',
  'p50 / p95, ms',
  'bytes loaded per sentence',
  'needed experts: resident / prefetched / late / on demand',
  'bytes / true tables',
  'bytes / Belady',
  'bytes / best without prediction',
  'time / bound',
  'stall of pass time',
  'hash building / pass time',
  'rounds, max / min time',
  'answers',
];

function systemsTable(group: Group, file: BenchFile): Section {
  const rows = group.measurements.map((measurement) => row(measurement, group, file));
  const table: Table = { caption: groupTitle(group), head: HEAD, rows };
  return {
    id: `systems-${group.key}`,
    title: `All systems: ${groupTitle(group)}`,
    about: [],
    tables: [table],
    reading: [
      'Bound: the resident run’s time, or the bytes moved over the fastest rate at which the link was seen; below 1 it was faster still while the run lasted. True tables: the same planner, knowing the routing as far ahead. Belady’s rule knows the whole run, and begins with what this system held after the warm-up: nothing can move less.',
    ],
  };
}

function row(measurement: MeasurementSummary, group: Group, file: BenchFile): string[] {
  const { resident } = group;
  const { scenario, budgetBytes, p50Ms, p95Ms, needed } = measurement;
  const found = [measurement.resident, measurement.prefetched, measurement.late, measurement.onDemand];
  return [
    shareName(scenario.share),
    systemTitle(measurement),
    inputsText(measurement),
    bytes(budgetBytes),
    rate(perSecond(measurement)),
    resident === undefined ? DASH : times(perSecond(measurement) / perSecond(resident)),
    `${ms(p50Ms)} / ${ms(p95Ms)}`,
    bytes(Math.round(measurement.bytesMoved / measurement.sentences)),
    needed === 0 ? DASH : found.map((count) => percent(count / needed, 0)).join(' / '),
    times(overTrueTables(measurement, group)),
    times(overBelady(measurement)),
    times(overBlind(measurement, group)),
    times(overBound(measurement, resident, file)),
    percent(measurement.stallSeconds / measurement.passSeconds),
    percent(hashBuilding(measurement)),
    times(Math.max(...measurement.wallMsOfRounds) / Math.min(...measurement.wallMsOfRounds)),
    answersText(measurement, resident),
  ];
}

function answersText(measurement: MeasurementSummary, resident: MeasurementSummary | undefined): string {
  if (resident === undefined || measurement.digest === '') return DASH;
  if (measurement.digest === resident.digest) return 'identical bits';
  return `${percent(measurement.agreement)} the same label`;
}

/** The paper's bars of throughput and latency: systems side by side, by model and inputs, at one budget. */
export function comparisonSections(file: BenchFile): Section[] {
  const onDisk = usualGroups(file.measurements).filter(
    (group) => oneByOne(group) && group.scenario.link === 'disk',
  );
  const shares = [
    ...new Set(onDisk.flatMap(({ measurements }) => measurements.map(({ scenario }) => scenario.share))),
  ];
  const share = shares.includes(0.2) ? 0.2 : Math.min(...shares);
  const chosen = ({ scenario, system }: MeasurementSummary) =>
    MAIN_SYSTEMS.includes(system) && (scenario.share === share || system === 'resident');
  const groups = onDisk.filter(({ measurements }) =>
    measurements.some(({ system, scenario }) => system === 'lru' && scenario.share === share),
  );
  const bars = (value: (measurement: MeasurementSummary, resident: MeasurementSummary) => number) =>
    groups.flatMap(({ scenario, measurements, resident }) =>
      resident === undefined
        ? []
        : measurements.filter(chosen).map((measurement) => ({
            group: `${scenario.model} ${scenario.data}`,
            series: measurement.system as string,
            value: value(measurement, resident),
          })),
    );
  const rows = bars((measurement, resident) => perSecond(measurement) / perSecond(resident));
  if (rows.length === 0) return [];
  const subtitle = `budget ${shareName(share)} of the experts’ bytes, ${linkTitle({ link: 'disk' })}; resident: 100 %`;
  const common = { groupTitle: 'model and inputs', legend: 'system', subtitle };
  return [
    {
      id: 'throughput-by-data',
      title: `Throughput by model and inputs at ${shareName(share)}`,
      beside: 'SiDA-MoE, figure 9',
      about: [],
      chart: barChart({
        ...common,
        title: 'Throughput, share of the resident run’s',
        rows,
        valueTitle: 'sentences/s ÷ resident',
      }),
      tables: [],
      reading: [],
    },
    {
      id: 'latency-by-data',
      title: `Latency by model and inputs at ${shareName(share)}`,
      beside: 'SiDA-MoE, figure 10',
      about: [],
      chart: barChart({
        ...common,
        title: 'Median time of a sentence, over the resident run’s',
        rows: bars((measurement, resident) => measurement.p50Ms / resident.p50Ms),
        valueTitle: 'median ÷ resident (symlog scale)',
        log: true,
      }),
      tables: [],
      reading: [],
    },
  ];
}
