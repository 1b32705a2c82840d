/** Measurements that belong together, and the ratios between them. */
import { referenceKey, type Scenario } from '../scenarios/scenarios.js';
import type { SystemName } from '../scenarios/systems.js';
import type { MeasurementSummary } from './bench-file.js';
import { dataTitle, linkTitle, modelTitle } from './format.js';

/** Of one model, inputs, link, device and batch; in the order of the measurements. */
export interface Group {
  scenario: Scenario;
  measurements: MeasurementSummary[];
  /** The resident run of the same inputs over the same link. */
  resident: MeasurementSummary | undefined;
}

export function groupsOf(measurements: readonly MeasurementSummary[]): Group[] {
  const groups = new Map<string, Group>();
  for (const measurement of measurements) {
    const { scenario } = measurement;
    const key = referenceKey(scenario);
    const group = groups.get(key) ?? { scenario, measurements: [], resident: undefined };
    group.measurements.push(measurement);
    if (measurement.system === 'resident') group.resident = measurement;
    groups.set(key, group);
  }
  return [...groups.values()];
}

export function groupTitle({ scenario }: Pick<Group, 'scenario'>): string {
  const { model, data, batch } = scenario;
  const title = `${modelTitle(model)}, ${dataTitle(data)}, ${linkTitle(scenario)}`;
  return batch === 1 ? title : `${title}, batches of ${batch}`;
}

export function perSecond({ sentences, wallMs }: Pick<MeasurementSummary, 'sentences' | 'wallMs'>): number {
  return (1000 * sentences) / wallMs;
}

/** Another system of the group at the same budget. */
export function beside(
  { scenario: { share } }: MeasurementSummary,
  system: SystemName,
  { measurements }: Group,
): MeasurementSummary | undefined {
  return measurements.find((own) => own.system === system && own.scenario.share === share);
}

/** Throughput over that of another measurement. */
export function speedOver(own: MeasurementSummary, other: MeasurementSummary | undefined): number | undefined {
  return other && perSecond(own) / perSecond(other);
}

/**
 * Bytes over the least that any policy could have moved from the same beginning. Never below 1; infinite where nothing
 * had to move.
 */
export function overBelady({ scenario, bytesMoved, leastBytes }: MeasurementSummary): number | undefined {
  if (leastBytes === undefined || scenario.share === 1 || bytesMoved + leastBytes === 0) return undefined;
  return bytesMoved / leastBytes;
}
