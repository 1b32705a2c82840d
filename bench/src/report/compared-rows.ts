/** The rows that a comparison counts: one input after the other, and fewer experts than all on the device. */
import type { SystemName } from '../scenarios/systems.js';
import type { BenchFile, MeasurementSummary } from './bench-file.js';
import { DASH } from './format.js';
import { type Group, groupsOf, oneByOne } from './groups.js';

export interface ComparedRow {
  measurement: MeasurementSummary;
  group: Group;
}

export function comparedRows(
  { measurements }: Pick<BenchFile, 'measurements'>,
  systems: readonly SystemName[],
): ComparedRow[] {
  return groupsOf(measurements)
    .filter(oneByOne)
    .flatMap((group) =>
      group.measurements
        .filter((own) => systems.includes(own.system) && own.scenario.share < 1)
        .map((measurement) => ({ measurement, group })),
    );
}

/** The rows that have a value, with it. */
export function withValue<T>(
  rows: readonly ComparedRow[],
  value: (measurement: MeasurementSummary, group: Group) => T | undefined,
): (ComparedRow & { value: T })[] {
  return rows.flatMap((row) => {
    const own = value(row.measurement, row.group);
    return own === undefined ? [] : [{ ...row, value: own }];
  });
}

/** `0.49×–1.64×`, or one figure, or a dash. */
export function rangeText(values: readonly number[], show: (value: number) => string): string {
  if (values.length === 0) return DASH;
  const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => show(value));
  return least === most ? least! : `${least} to ${most}`;
}

/** Inputs of the rows. */
export function inputsRange(rows: readonly ComparedRow[]): string {
  return rangeText(
    rows.map(({ measurement }) => measurement.sentences),
    String,
  );
}
