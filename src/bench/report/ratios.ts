/** Ratios of a cell that the targets (P5-P9) are about. */
import { LINKS } from '../links.js';
import { type BenchFile, type CellSummary, perSecond } from './bench-file.js';
import type { Group } from './groups.js';

/** Systems that predict nothing. */
const BLIND: readonly string[] = ['lru', 'fifo', 'lfu', 'lifo', 'expert-buffering', 'static-hot'];

/** P5: over what no run can be faster than, the resident run's time or that of its bytes over the link. */
export function overBound(
  { scenario, wallMs, bytesMoved }: CellSummary,
  resident: CellSummary | undefined,
  { models }: Pick<BenchFile, 'models'>,
): number | undefined {
  const disk = models.find(({ model }) => model.name === scenario.model)?.disk.sequential;
  // What host memory gives a GPU the rig does not measure: bench/cuda.mjs does.
  const bandwidth = LINKS[scenario.link].bandwidth ?? (scenario.link === 'disk' ? disk : undefined);
  if (resident === undefined || bandwidth === undefined || scenario.share === 1) return undefined;
  return wallMs / Math.max(resident.wallMs, (1000 * bytesMoved) / bandwidth);
}

/** P6. */
export function overBelady({ scenario, bytesMoved, beladyBytes }: CellSummary): number | undefined {
  return beladyBytes === 0 || scenario.share === 1 ? undefined : bytesMoved / beladyBytes;
}

/** P7: bytes over those of the best system of the group that predicts nothing, at the same budget. */
export function overBlind({ scenario, bytesMoved, system }: CellSummary, group: Group): number | undefined {
  const least = blindBytes(group, scenario.share);
  return least === undefined || system === 'resident' ? undefined : bytesMoved / least;
}

/** What Belady's rule would move, over the same: nothing gets below. */
export function beladyOverBlind({ scenario, beladyBytes }: CellSummary, group: Group): number | undefined {
  const least = blindBytes(group, scenario.share);
  return least === undefined || beladyBytes === 0 ? undefined : beladyBytes / least;
}

function blindBytes({ cells }: Group, share: number): number | undefined {
  const blind = cells.filter(({ system, scenario }) => BLIND.includes(system) && scenario.share === share);
  const least = Math.min(...blind.map(({ bytesMoved }) => bytesMoved));
  return least > 0 && Number.isFinite(least) ? least : undefined;
}

/** P8: throughput over that of another system of the group, at the same budget. */
export function overSystem(cell: CellSummary, system: string, { cells }: Group): number | undefined {
  const other = cells.find((own) => own.system === system && own.scenario.share === cell.scenario.share);
  return other === undefined ? undefined : perSecond(cell) / perSecond(other);
}

/** P9. */
export function hashBuilding({ tableSeconds, passSeconds }: CellSummary): number | undefined {
  return tableSeconds === 0 ? undefined : tableSeconds / passSeconds;
}
