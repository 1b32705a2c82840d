/** What a budget costs with switch-words, for the README. */
import { SWITCH_MINI, SWITCH_WORDS } from '../scenarios/models.js';
import { type SystemName, TRAINED, UNPREDICTED } from '../scenarios/systems.js';
import type { BenchFile, MeasurementSummary } from './bench-file.js';
import { bytes, DASH, percent, shareName, times } from './format.js';
import { groupsOf, inputsText, oneByOne, usual } from './groups.js';
import { QUALITY_HEAD, qualityCells, taskQuality, taskTitle } from './quality.js';
import type { Table } from './section.js';

const HEAD = [
  'budget',
  'system',
  'inputs',
  'device memory',
  'experts that fit',
  'right answers',
  'scores, bit for bit',
  'median time / resident: this system, `lru`, `none`',
  'bytes loaded per sentence: this system, `lru`, `none`',
];

/** The table, and what its controls say of the right answers. */
export function budgetsTable(file: BenchFile): { tables: Table[]; notes: string[] } {
  const found = groupsOf(file.measurements).find(
    (own) =>
      oneByOne(own) &&
      own.scenario.model === SWITCH_WORDS.name &&
      own.scenario.data === 'words' &&
      own.scenario.link === 'disk',
  );
  const resident = found?.resident;
  if (found === undefined || resident === undefined) return { tables: [], notes: [] };
  const { measurements } = usual(found);
  const at = (system: SystemName, share: number) =>
    measurements.find((own) => own.system === system && own.scenario.share === share);
  const row = (measurement: MeasurementSummary): string[] => {
    const { share } = measurement.scenario;
    const all = [measurement, ...UNPREDICTED.map((name) => at(name, share))];
    const each = (text: (one: MeasurementSummary) => string) =>
      all.map((one) => (one === undefined ? DASH : text(one))).join(', ');
    return [
      shareName(share),
      `\`${measurement.system}\``,
      inputsText(measurement),
      bytes(measurement.budgetBytes),
      `${measurement.slots} of ${measurement.experts}`,
      percent(measurement.rightLabels / measurement.sentences),
      measurement.digest === resident.digest ? 'identical' : 'DIFFERENT',
      each((one) => times(one.p50Ms / resident.p50Ms)),
      each((one) => bytes(Math.round(one.bytesMoved / one.sentences))),
    ];
  };
  const rowsOf = (system: SystemName): string[][] => {
    const own = measurements.filter((one) => one.system === system && one.scenario.share < 1);
    if (own.length === 0) return [];
    const whole = at(system, 1);
    return [...(whole === undefined ? [] : [whole]), ...own].map(row);
  };
  const rows = [row(resident), ...[...TRAINED, 'token' as const].flatMap(rowsOf)];
  return {
    tables: [{ head: HEAD, rows }, ...controls(file)],
    notes: ['`lru` and `none` (the default settings with `--predictor none`) predict nothing.'],
  };
}

/** Whether right answers say anything of the experts: of the model above, and of the bundled one. */
function controls({ fidelity }: BenchFile): Table[] {
  const rows = (['sst2', 'words'] as const).flatMap((task) => {
    const source = fidelity.find(({ data }) => data === task);
    const quality = source && taskQuality(source);
    if (!quality) return [];
    const model = source.model ?? SWITCH_MINI.name;
    return [[model, taskTitle(task), ...qualityCells(quality, (value) => percent(value))]];
  });
  if (rows.length === 0) return [];
  const head = ['model', 'task', ...QUALITY_HEAD];
  return [{ caption: 'What the experts have to do with right answers', head, rows }];
}
