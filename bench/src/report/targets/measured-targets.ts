/** P5 to P9, and the gain of P17: bytes and time of the systems under a budget. */
import { modelNamed } from '../../scenarios/models.js';
import { type SystemName, TRAINED } from '../../scenarios/systems.js';
import type { BenchFile, MeasurementSummary } from '../bench-file.js';
import { type ComparedRow, comparedRows, inputsRange, rangeText, withValue } from '../compared-rows.js';
import { CANNOT_TELL, DASH, NOT_MEASURED, percent, times } from '../format.js';
import type { Group } from '../groups.js';
import { qualities } from '../quality.js';
import {
  beside,
  gainedShare,
  hashBuilding,
  overBelady,
  overBound,
  overSystem,
  overTrueTables,
  savedByTruth,
  savedShare,
  takenFromPasses,
  WORTH,
} from '../ratios.js';
import { judged, type TargetRow } from './target-row.js';

/** Where no row is measured yet: every system of the smallest scenario, in minutes. */
const EXAMPLE = 'switch-mini/sst2/20%/disk/*';
/** Wrong tables of the same size. */
const CONTROL: SystemName = 'shuffled';
/** Shorter passes end before a transfer can hide behind them, in milliseconds. */
const LONG_PASS_MS = 10;

interface MeasuredTarget {
  target: string;
  what: string;
  limit: string;
  within: (value: number) => boolean;
  value: (measurement: MeasurementSummary, group: Group) => number | undefined;
  show: (value: number) => string;
  keep?: (row: ComparedRow) => boolean;
  /** Which of these rows the target is about; the others are told beside the figure. */
  counts?: (row: ComparedRow) => boolean;
  /** Behind the figure of the rows that count. */
  more?: (rows: readonly ComparedRow[]) => string;
  /** Systems whose measurements it needs. */
  systems: readonly SystemName[];
  control?: SystemName;
  /** Why rows that were measured have no value. Where there are only such rows, they cannot tell. */
  silent?: {
    because: string;
    /** What there was to gain: too little to be a share of. */
    most: MeasuredTarget['value'];
    value: MeasuredTarget['value'];
  };
}

const values = (rows: readonly { value: number }[]) => rows.map(({ value }) => value);

function targetRow(file: BenchFile, target: MeasuredTarget): TargetRow {
  const { keep = () => true, counts = () => true, value, show, more = () => '', within, silent } = target;
  const { control = CONTROL } = target;
  const compared = comparedRows(file, TRAINED).filter(keep);
  const all = withValue(compared, value);
  const rows = all.filter(counts);
  const others = all.filter((row) => !counts(row));
  const without = rows.length === 0 && silent ? withValue(compared.filter(counts), silent.most) : [];
  const wrong = withValue(comparedRows(file, [control]).filter(keep), value).filter(counts);
  const inRows = ({ length }: readonly unknown[]) => (length === 1 ? 'in 1 row' : `in ${length} rows`);
  /** Of rows that have no value: what there was to gain, and the share of it where that is above 0. */
  const heldBack = (own: readonly (ComparedRow & { value: number })[]) => {
    const shares = values(withValue(own, silent!.value));
    const told = `${silent!.because} ${rangeText(values(own), show)} ${inRows(own)}`;
    return shares.length === 0 ? told : `${told}, of which ${rangeText(shares, show)}`;
  };
  const figure = (own: readonly { value: number }[]) => `${rangeText(values(own), show)} ${inRows(own)}`;
  const parts = [
    rows.length === 0 ? DASH : `${figure(rows)}${more(rows)}`,
    ...(without.length === 0 ? [] : [heldBack(without)]),
    ...(others.length === 0 ? [] : [`elsewhere ${figure(others)}`]),
  ];
  const shown =
    rows.length > 0 ? rows : without.length > 0 ? without.map((row) => ({ ...row, value: 0 })) : others;
  return {
    target: target.target,
    what: target.what,
    limit: target.limit,
    figure: parts.join('; '),
    verdict: without.length > 0 ? CANNOT_TELL : judged(values(rows), within),
    inputs: inputsRange(rows.length > 0 ? rows : without),
    control: wrong.length === 0 ? DASH : `${control}: ${rangeText(values(wrong), show)}`,
    command: commandFor(target, shown),
  };
}

/** Measures the row that decides, which is the worst, and what it is compared with. */
function commandFor(
  { limit, systems, control = CONTROL }: MeasuredTarget,
  rows: readonly (ComparedRow & { value: number })[],
): string {
  const most = limit.startsWith('≤');
  const [worst] = rows.toSorted((a, b) => (most ? b.value - a.value : a.value - b.value));
  const names = worst === undefined ? [EXAMPLE] : namesFor(worst, [control, ...systems]);
  return `\`npm run bench -- --data DIR ${names.map((name) => `--only '${name}'`).join(' ')}\``;
}

function namesFor({ measurement, group }: ComparedRow, systems: readonly SystemName[]): string[] {
  const others = systems.flatMap((system) => beside(measurement, system, group)?.name ?? []);
  return [...new Set([measurement.name, ...others])];
}

export function measuredTargets(file: BenchFile): TargetRow[] {
  const told = qualities(file).filter(({ quality }) => quality.told === true);
  // A padded model gives the answers of its checkpoint, so that one's controls are its own.
  const matter = ({ measurement: { scenario } }: ComparedRow) => {
    const { name, folder = name } = modelNamed(scenario.model);
    return told.some(({ model, data }) => model === folder && data === scenario.data);
  };
  const worth = percent(WORTH, 0);
  const few = ({ scenario }: MeasurementSummary) => scenario.share >= 0.1 && scenario.share <= 0.25;
  const savings = [1, 4].map((lookahead): MeasuredTarget => {
    const some = ({ measurement }: ComparedRow) =>
      few(measurement) && measurement.scenario.lookahead === lookahead;
    return {
      target: 'P7',
      what: `bytes saved over the best that predicts nothing, of what true tables save where that is at least ${worth}; 10–25 % fits, look-ahead ${lookahead}, tasks for which the model’s experts matter`,
      limit: '≥ 70 %',
      within: (value) => value >= 0.7,
      value: (measurement, group) => savedShare(measurement, group),
      show: (value) => percent(value, 0),
      keep: some,
      counts: matter,
      silent: {
        because: 'true tables themselves save too little,',
        most: savedByTruth,
        value: (measurement, group) => savedShare(measurement, group, 0),
      },
      systems: ['replay', 'lru', 'none', 'lfu', 'static-hot'],
    };
  });
  return [
    targetRow(file, {
      target: 'P5',
      what: `time over the longer of computing and moving the bytes, passes of ${LONG_PASS_MS} ms and more`,
      limit: '≤ 1.10×',
      within: (value) => value <= 1.1,
      value: (measurement, { resident }) => {
        if (resident === undefined || 1000 * resident.passSeconds < LONG_PASS_MS * resident.passes)
          return undefined;
        return overBound(measurement, resident, file);
      },
      show: times,
      systems: ['resident'],
      control: 'lru',
    }),
    targetRow(file, {
      target: 'P6',
      what: 'bytes over those of the same planner with true tables',
      limit: '≤ 1.10×',
      within: (value) => value <= 1.1,
      value: overTrueTables,
      show: times,
      more: (own) => {
        const least = values(withValue(own, overBelady));
        if (least.length === 0) return `; over Belady’s bound ${NOT_MEASURED}`;
        return `; over Belady’s bound ${rangeText(least, times)} in ${least.length} of them`;
      },
      systems: ['replay'],
    }),
    ...savings.map((target) => targetRow(file, target)),
    targetRow(file, {
      target: 'P8',
      what: 'throughput over whole-layer streaming',
      limit: '≥ 4×',
      within: (value) => value >= 4,
      value: (measurement, group) => overSystem(measurement, 'layer-streaming', group),
      show: times,
      systems: ['layer-streaming'],
    }),
    targetRow(file, {
      target: 'P8',
      what: `throughput gained over LRU, of what true tables gain where that is at least ${worth}`,
      limit: '≥ 70 %',
      within: (value) => value >= 0.7,
      value: (measurement, group) => gainedShare(measurement, group, 'lru'),
      show: (value) => percent(value, 0),
      systems: ['replay', 'lru'],
    }),
    targetRow(file, {
      target: 'P17',
      what: `throughput gained over \`--predictor none\`, of what true tables gain where that is at least ${worth}; without the governor`,
      limit: '≥ 70 %',
      within: (value) => value >= 0.7,
      value: (measurement, group) => gainedShare(measurement, group, 'none'),
      show: (value) => percent(value, 0),
      systems: ['replay', 'none'],
    }),
    targetRow(file, {
      target: 'P9',
      what: 'hash building, share of the passes’ time',
      limit: '≤ 5 %',
      within: (value) => value <= 0.05,
      value: hashBuilding,
      show: percent,
      systems: [],
    }),
    targetRow(file, {
      target: 'P9',
      what: 'what hash building takes away from the computing threads: how much longer passes compute than where the same planner reads true tables, waiting for experts left out',
      limit: '≤ 2 %',
      within: (value) => value <= 0.02,
      value: takenFromPasses,
      show: percent,
      systems: ['replay'],
    }),
  ];
}
