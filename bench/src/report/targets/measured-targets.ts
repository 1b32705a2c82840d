/** P6 to P9: bytes and time of the systems under a budget. */
import { modelNamed } from '../../scenarios/models.js';
import { type SystemName, TRAINED } from '../../scenarios/systems.js';
import type { BenchFile, MeasurementSummary } from '../bench-file.js';
import { type ComparedRow, comparedRows, inputsRange, rangeText, withValue } from '../compared-rows.js';
import { DASH, NOT_MEASURED, percent, times } from '../format.js';
import type { Group } from '../groups.js';
import { qualities } from '../quality.js';
import {
  gainedShare,
  hashBuilding,
  overBelady,
  overSystem,
  overTrueTables,
  savedShare,
  WORTH,
} from '../ratios.js';
import { judged, type TargetRow } from './target-row.js';

/** Wrong tables of the same size. */
const CONTROL: SystemName = 'shuffled';

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
}

const values = (rows: readonly { value: number }[]) => rows.map(({ value }) => value);

function targetRow(file: BenchFile, target: MeasuredTarget): TargetRow {
  const { keep = () => true, counts = () => true, value, show, more = () => '', within, systems } = target;
  const ofSystems = (own: readonly SystemName[]) => withValue(comparedRows(file, own).filter(keep), value);
  const all = ofSystems(TRAINED);
  const rows = all.filter(counts);
  const others = all.filter((row) => !counts(row));
  const wrong = ofSystems([CONTROL]).filter(counts);
  const figure = (own: readonly { value: number }[]) =>
    `${rangeText(values(own), show)} in ${own.length === 1 ? '1 row' : `${own.length} rows`}`;
  const parts = [
    rows.length === 0 ? DASH : `${figure(rows)}${more(rows)}`,
    ...(others.length === 0 ? [] : [`elsewhere ${figure(others)}`]),
  ];
  return {
    target: target.target,
    what: target.what,
    limit: target.limit,
    figure: parts.join('; '),
    verdict: judged(values(rows), within),
    inputs: inputsRange(rows),
    control: wrong.length === 0 ? DASH : `${CONTROL}: ${rangeText(values(wrong), show)}`,
    command: commandFor(systems),
  };
}

/** The measurements of all scenarios that have these systems. */
function commandFor(systems: readonly SystemName[]): string {
  const patterns = [...TRAINED, CONTROL, ...systems].map((system) => `--only '*/${system}'`);
  return `\`npm run bench -- --data DIR ${patterns.join(' ')}\``;
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
      value: savedShare,
      show: (value) => percent(value, 0),
      keep: some,
      counts: matter,
      systems: ['replay', 'lru', 'none', 'lfu', 'static-hot'],
    };
  });
  const rows = [
    targetRow(file, {
      target: 'P6',
      what: 'bytes over those of the same planner with true tables',
      limit: '≤ 1.10×',
      within: (value) => value <= 1.1,
      value: overTrueTables,
      show: times,
      more: (own) => {
        const least = values(withValue(own, overBelady));
        return `; over Belady’s bound ${least.length === 0 ? NOT_MEASURED : rangeText(least, times)}`;
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
      value: gainedShare,
      show: (value) => percent(value, 0),
      systems: ['replay', 'lru'],
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
  ];
  return [
    ...rows,
    {
      target: 'P9',
      what: 'what hash building takes away from the computing threads',
      limit: '≤ 2 %',
      ...{ figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH, command: DASH },
    },
  ];
}
