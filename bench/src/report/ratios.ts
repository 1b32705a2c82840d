/** The ratios that targets are set for. */
import { LINKS } from '../scenarios/links.js';
import { type BenchFile, type MeasurementSummary, perSecond } from './bench-file.js';
import type { Group } from './groups.js';

/** Systems that predict nothing. */
const BLIND: readonly string[] = ['lru', 'fifo', 'lfu', 'lifo', 'expert-buffering', 'static-hot'];

/** Time over a bound that no run can beat: the time of the resident run, or of moving its bytes over the link. */
export function overBound(
  { scenario, wallMs, bytesMoved }: MeasurementSummary,
  resident: MeasurementSummary | undefined,
  { models }: Pick<BenchFile, 'models'>,
): number | undefined {
  const disk = models.find(({ model }) => model.name === scenario.model)?.disk.sequential;
  // What host memory gives a GPU is measured by bench/scripts/cuda/cuda.mjs alone.
  const bandwidth = LINKS[scenario.link].bandwidth ?? (scenario.link === 'disk' ? disk : undefined);
  if (resident === undefined || bandwidth === undefined || scenario.share === 1) return undefined;
  return wallMs / Math.max(resident.wallMs, (1000 * bytesMoved) / bandwidth);
}

/** Bytes over those of Belady's rule. */
export function overBelady({ scenario, bytesMoved, beladyBytes }: MeasurementSummary): number | undefined {
  return beladyBytes === 0 || scenario.share === 1 ? undefined : bytesMoved / beladyBytes;
}

/** Bytes over those of the best system of the group that predicts nothing, at the same budget. */
export function overBlind(
  { scenario, bytesMoved, system }: MeasurementSummary,
  group: Group,
): number | undefined {
  const least = blindBytes(group, scenario.share);
  return least === undefined || system === 'resident' ? undefined : bytesMoved / least;
}

/** Bytes of Belady's rule over the same: the lower bound. */
export function beladyOverBlind(
  { scenario, beladyBytes }: MeasurementSummary,
  group: Group,
): number | undefined {
  const least = blindBytes(group, scenario.share);
  return least === undefined || beladyBytes === 0 ? undefined : beladyBytes / least;
}

function blindBytes({ measurements }: Group, share: number): number | undefined {
  const blind = measurements.filter(
    ({ system, scenario }) => BLIND.includes(system) && scenario.share === share,
  );
  const least = Math.min(...blind.map(({ bytesMoved }) => bytesMoved));
  return least > 0 && Number.isFinite(least) ? least : undefined;
}

/** Throughput over that of another system of the group, at the same budget. */
export function overSystem(
  measurement: MeasurementSummary,
  system: string,
  { measurements }: Group,
): number | undefined {
  const other = measurements.find(
    (own) => own.system === system && own.scenario.share === measurement.scenario.share,
  );
  return other === undefined ? undefined : perSecond(measurement) / perSecond(other);
}

/** Time of hash building over the time of the passes. */
export function hashBuilding({ tableSeconds, passSeconds }: MeasurementSummary): number | undefined {
  return tableSeconds === 0 ? undefined : tableSeconds / passSeconds;
}
