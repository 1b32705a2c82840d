/** What a budget costs with switch-words, for the README. */
import { SWITCH_WORDS } from '../scenarios/models.js';
import type { SystemName } from '../scenarios/systems.js';
import type { MeasurementSummary } from './bench-file.js';
import { bytes, DASH, shareName, times } from './format.js';
import { beside, groupsOf } from './groups.js';
import type { Section } from './section.js';

const TIMED: readonly SystemName[] = ['none', 'lru', 'lstm'];
const LOADED: readonly SystemName[] = ['none', 'lstm'];

export function budgetsSection(measurements: readonly MeasurementSummary[]): Section {
  const group = groupsOf(measurements).find(
    ({ scenario: { model, data, link, batch } }) =>
      model === SWITCH_WORDS.name && data === 'words' && link === 'disk' && batch === 1,
  );
  const resident = group?.resident;
  const rows = (group?.measurements ?? [])
    .filter(({ system }) => system === 'none')
    .map((none) => {
      const of = (system: SystemName) => beside(none, system, group!);
      const same = group!.measurements
        .filter(({ system, scenario }) => TIMED.includes(system) && scenario.share === none.scenario.share)
        .every(({ digest }) => digest === resident?.digest);
      return [
        shareName(none.scenario.share),
        bytes(none.budgetBytes),
        `${none.slots} of ${none.experts}`,
        ...TIMED.map((system) => times(resident && of(system) && of(system)!.p50Ms / resident.p50Ms)),
        ...LOADED.map((system) => (of(system) ? bytes(of(system)!.bytesMoved / none.sentences) : DASH)),
        same ? 'identical bits' : 'DIFFERENT',
      ];
    });
  const whole = resident && [
    ...['100 %', bytes(resident.budgetBytes), `${resident.slots} of ${resident.experts}`],
    ...[...TIMED.map(() => times(1)), ...LOADED.map(() => DASH), 'identical bits'],
  ];
  return {
    id: 'budgets',
    title: 'What a smaller budget costs: switch-words, one noun at a time, experts on disk',
    tables: [
      {
        head: [
          'budget | device memory | experts that fit',
          ...TIMED.map((system) => `time, \`${system}\``),
          ...LOADED.map((system) => `bytes loaded per input, \`${system}\``),
          'answers',
        ].join(' | '),
        rows: whole && rows.length > 0 ? [whole, ...rows] : [],
      },
    ],
  };
}
