/** Measurements that belong on one chart. */
import { leastInputs } from '../preparation/sizes.js';
import { modelNamed } from '../scenarios/models.js';
import { LOOKAHEAD, type Scenario } from '../scenarios/scenarios.js';
import type { MeasurementSummary } from './bench-file.js';
import { dataTitle, linkTitle } from './format.js';

export interface Group {
  key: string;
  scenario: Scenario;
  measurements: MeasurementSummary[];
  /** The resident run of the same inputs over the same link. */
  resident: MeasurementSummary | undefined;
}

/** By model, inputs, link, device, batch and arrivals; in the order of the measurements. */
export function groupsOf(measurements: readonly MeasurementSummary[]): Group[] {
  const groups = new Map<string, Group>();
  for (const measurement of measurements) {
    const { model, data, link, device, batch, arrivals } = measurement.scenario;
    const key = [model, data, link, ...(device === undefined ? [] : [device]), ...(batch === 1 ? [] : [`batch-${batch}`]), ...(arrivals ? [`rest-${arrivals}`] : [])].join('-'); // biome-ignore format: one line
    const group = groups.get(key) ?? {
      key,
      scenario: measurement.scenario,
      measurements: [],
      resident: undefined,
    };
    group.measurements.push(measurement);
    if (measurement.system === 'resident') group.resident = measurement;
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** The measurements of a group with the look-ahead that all systems have. */
export function usual(group: Group): Group {
  return {
    ...group,
    measurements: group.measurements.filter(({ scenario }) => scenario.lookahead === LOOKAHEAD),
  };
}

export function usualGroups(measurements: readonly MeasurementSummary[]): Group[] {
  return groupsOf(measurements).map(usual);
}

/** One sentence a batch, one batch after the other. */
export function oneByOne({ scenario }: Pick<Group, 'scenario'>): boolean {
  return scenario.batch === 1 && scenario.arrivals === undefined;
}

/** `lstm, look-ahead 1`, where that is not the usual one. */
export function systemTitle({ scenario, system }: Pick<MeasurementSummary, 'scenario' | 'system'>): string {
  return scenario.lookahead === LOOKAHEAD ? system : `${system}, look-ahead ${scenario.lookahead}`;
}

/** The number of inputs; with the least that says something of the model, where it lies below. */
export function inputsText({
  scenario,
  sentences,
}: Pick<MeasurementSummary, 'scenario' | 'sentences'>): string {
  const least = leastInputs(modelNamed(scenario.model));
  return sentences < least ? `${sentences} (fewer than ${least})` : String(sentences);
}

/** `switch-base-8-bf16 (random weights)`. */
export function modelTitle(name: string): string {
  const { weights, expertBytes } = modelNamed(name);
  const padded = expertBytes === undefined ? '' : `, experts filled with zeros up to ${expertBytes}`;
  return weights === 'random' ? `${name} (random weights)` : `${name} (trained${padded})`;
}

export function groupTitle({ scenario }: Pick<Group, 'scenario'>): string {
  return `${modelTitle(scenario.model)}, ${dataTitle(scenario.data)}, ${linkTitle(scenario)}`;
}
