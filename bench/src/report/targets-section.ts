/** Targets that depend on the budget: the best and the worst of each ratio over its measurements. */
import { LOOKAHEAD } from '../scenarios/scenarios.js';
import type { BenchFile, MeasurementSummary } from './bench-file.js';
import { linkTitle, percent, times } from './format.js';
import { type Group, groupsOf, modelTitle, oneByOne } from './groups.js';
import { beladyOverBlind, hashBuilding, overBelady, overBlind, overBound, overSystem } from './ratios.js';
import type { Section } from './section.js';

interface Target {
  what: string;
  limit: number;
  /** The limit is a minimum, not a maximum. */
  least?: boolean;
  keep: (measurement: MeasurementSummary) => boolean;
  value: (measurement: MeasurementSummary, group: Group, file: BenchFile) => number | undefined;
  /** The ratio of the oracle, which nothing can beat. */
  bound?: (measurement: MeasurementSummary, group: Group) => number | undefined;
  show?: (value: number) => string;
}

const SYSTEMS = ['lstm', 'attention', 'replay'];
const scarce = ({ scenario }: MeasurementSummary) => scenario.share < 1;
const usualAhead = (measurement: MeasurementSummary) =>
  scarce(measurement) && measurement.scenario.lookahead === LOOKAHEAD;
const fewAt =
  (lookahead: number) =>
  ({ scenario }: MeasurementSummary) =>
    scenario.share >= 0.1 && scenario.share <= 0.25 && scenario.lookahead === lookahead;
const headline = ({ scenario }: MeasurementSummary) =>
  scenario.model.startsWith('switch-base-128') && scenario.data === 'sst2' && scenario.share === 0.2;

const TARGETS: readonly Target[] = [
  {
    what: 'time over max(compute, bytes ÷ link)',
    limit: 1.1,
    keep: usualAhead,
    value: (measurement, { resident }, file) => overBound(measurement, resident, file),
  },
  {
    what: 'bytes over Belady’s, at most 40 % fits',
    limit: 1.1,
    keep: (measurement) => usualAhead(measurement) && measurement.scenario.share <= 0.4,
    value: overBelady,
  },
  ...[
    { lookahead: 1, limit: 0.88 },
    { lookahead: LOOKAHEAD, limit: 0.76 },
  ].map(
    ({ lookahead, limit }): Target => ({
      what: `bytes over the best without prediction, 10–25 % fits, look-ahead ${lookahead}`,
      limit,
      keep: fewAt(lookahead),
      value: overBlind,
      bound: beladyOverBlind,
    }),
  ),
  ...[
    { other: 'layer-streaming', limit: 4 },
    { other: 'lru', limit: 1.5 },
  ].map(
    ({ other, limit }): Target => ({
      what: `throughput over ${other}, 128 experts, SST-2, 20 % fits`,
      limit,
      least: true,
      keep: headline,
      value: (measurement, group) => overSystem(measurement, other, group),
    }),
  ),
  {
    what: 'hash building over pass',
    limit: 0.05,
    keep: usualAhead,
    value: hashBuilding,
    show: percent,
  },
];

export function targetsSection(file: BenchFile): Section[] {
  const groups = groupsOf(file.measurements).filter(oneByOne);
  const kindOf = ({ scenario }: Group) => `${modelTitle(scenario.model)}, ${linkTitle(scenario)}`;
  const rows = TARGETS.flatMap((target) =>
    [...new Set(groups.map(kindOf))].flatMap((kind) => {
      const own = groups.filter((group) => kindOf(group) === kind);
      return rowsOf(target, kind, own, file);
    }),
  );
  if (rows.length === 0) return [];
  const { differing, comparisons } = file;
  const differ = String(differing.length);
  rows.push([
    `answers that differ, ${comparisons} runs`,
    'all',
    'all exact',
    '0',
    differ,
    differ,
    verdict(differing.length === 0),
  ]);
  return [
    {
      id: 'targets',
      title: 'The targets',
      about: ['Best and worst over inputs and budgets, batch 1.'],
      tables: [{ head: ['what', 'model, link', 'system', 'target', 'best', 'worst', ''], rows }],
      reading: ['`replay` has the true routing: what it misses, no predictor can reach.'],
    },
  ];
}

function rowsOf(target: Target, kind: string, groups: readonly Group[], file: BenchFile): string[][] {
  const { value, bound } = target;
  const values = (
    system: string,
    of: (measurement: MeasurementSummary, group: Group) => number | undefined,
  ) =>
    groups.flatMap((group) =>
      group.measurements
        .filter((measurement) => measurement.system === system && target.keep(measurement))
        .map((measurement) => of(measurement, group))
        .filter((ratio) => ratio !== undefined),
    );
  const rows = SYSTEMS.map((system) =>
    row(
      target,
      kind,
      system,
      values(system, (measurement, group) => value(measurement, group, file)),
    ),
  );
  if (bound !== undefined)
    rows.push(row(target, kind, 'Belady: nothing moves less', values('replay', bound)));
  return rows.flat();
}

function row(target: Target, kind: string, system: string, values: readonly number[]): string[][] {
  if (values.length === 0) return [];
  const { limit, least = false, show = (value: number) => times(value) } = target;
  const ends = [Math.min(...values), Math.max(...values)];
  const [best, worst] = least ? ends.reverse() : ends;
  const met = least ? worst! >= limit : worst! <= limit;
  const sign = least ? '≥' : '≤';
  return [[target.what, kind, system, `${sign} ${show(limit)}`, show(best!), show(worst!), verdict(met)]];
}

function verdict(met: boolean): string {
  return met ? 'reached' : 'missed';
}
