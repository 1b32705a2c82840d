/** Cells that belong on one chart. */
import { modelNamed } from '../models.js';
import { LOOKAHEAD, type Scenario } from '../scenarios.js';
import type { CellSummary } from './bench-file.js';
import { dataTitle, linkTitle } from './format.js';

export interface Group {
  key: string;
  scenario: Scenario;
  cells: CellSummary[];
  /** The resident run of the same inputs over the same link. */
  resident: CellSummary | undefined;
}

/** By model, inputs, link, device, batch and arrivals; in the order of the cells. */
export function groupsOf(cells: readonly CellSummary[]): Group[] {
  const groups = new Map<string, Group>();
  for (const cell of cells) {
    const { model, data, link, device, batch, arrivals } = cell.scenario;
    const key = [model, data, link, ...(device === undefined ? [] : [device]), ...(batch === 1 ? [] : [`batch-${batch}`]), ...(arrivals ? [`rest-${arrivals}`] : [])].join('-'); // biome-ignore format: one line
    const group = groups.get(key) ?? { key, scenario: cell.scenario, cells: [], resident: undefined };
    group.cells.push(cell);
    if (cell.system === 'resident') group.resident = cell;
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Of a group the cells with the look-ahead that all systems have. */
export function usual(group: Group): Group {
  return { ...group, cells: group.cells.filter(({ scenario }) => scenario.lookahead === LOOKAHEAD) };
}

export function usualGroups(cells: readonly CellSummary[]): Group[] {
  return groupsOf(cells).map(usual);
}

/** One sentence a batch, one batch after the other. */
export function oneByOne({ scenario }: Pick<Group, 'scenario'>): boolean {
  return scenario.batch === 1 && scenario.arrivals === undefined;
}

/** `switch-base-8-bf16 (random weights)`. */
export function modelTitle(name: string): string {
  const { weights } = modelNamed(name);
  return weights === 'random' ? `${name} (random weights)` : `${name} (trained)`;
}

export function groupTitle({ scenario }: Pick<Group, 'scenario'>): string {
  return `${modelTitle(scenario.model)}, ${dataTitle(scenario.data)}, ${linkTitle(scenario)}`;
}
