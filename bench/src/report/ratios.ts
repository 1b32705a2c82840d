/** The ratios that targets are set for. */
import { LINKS } from '../scenarios/links.js';
import { type SystemName, UNPREDICTED } from '../scenarios/systems.js';
import { type BenchFile, type MeasurementSummary, perSecond } from './bench-file.js';
import type { Group } from './groups.js';

/** Systems that predict nothing. */
const BLIND_SERVERS: readonly SystemName[] = [...UNPREDICTED, 'fifo', 'lfu'];
const BLIND: readonly SystemName[] = [...BLIND_SERVERS, 'expert-buffering', 'static-hot'];

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

/**
 * Bytes over the least that any policy could have moved from the same beginning. Never below 1; infinite where nothing
 * had to move.
 */
export function overBelady({ scenario, bytesMoved, leastBytes }: MeasurementSummary): number | undefined {
  if (leastBytes === undefined || scenario.share === 1 || bytesMoved + leastBytes === 0) return undefined;
  return bytesMoved / leastBytes;
}

/** Another system of the group at the same budget, and at the same look-ahead if it has one. */
export function beside(
  { scenario }: MeasurementSummary,
  system: SystemName,
  { measurements }: Group,
): MeasurementSummary | undefined {
  const alike = measurements.filter((own) => own.system === system && own.scenario.share === scenario.share);
  const ahead = alike.find((own) => own.scenario.lookahead === scenario.lookahead);
  return ahead ?? (BLIND.includes(system) || system === 'layer-streaming' ? alike[0] : undefined);
}

/** Throughput over that of another system. */
export function overSystem(
  measurement: MeasurementSummary,
  system: SystemName,
  group: Group,
): number | undefined {
  const other = beside(measurement, system, group);
  return other === undefined ? undefined : perSecond(measurement) / perSecond(other);
}

/** Throughput over that of the best system in a server that predicts nothing: the engine alone has less to do. */
export function overBestBlind(measurement: MeasurementSummary, { measurements }: Group): number | undefined {
  const blind = measurements.filter(
    ({ system, scenario }) => BLIND_SERVERS.includes(system) && scenario.share === measurement.scenario.share,
  );
  return blind.length === 0 ? undefined : perSecond(measurement) / Math.max(...blind.map(perSecond));
}

/** Bytes over those of another system; infinite where that moves nothing and this does. */
export function bytesOver(
  measurement: MeasurementSummary,
  system: SystemName,
  group: Group,
): number | undefined {
  const other = beside(measurement, system, group);
  if (other === undefined || measurement.bytesMoved + other.bytesMoved === 0) return undefined;
  return measurement.bytesMoved / other.bytesMoved;
}

/** Bytes over those of the same planner with true tables: same budget, same look-ahead, same warm-up. */
export function overTrueTables(measurement: MeasurementSummary, group: Group): number | undefined {
  return measurement.system === 'resident' ? undefined : bytesOver(measurement, 'replay', group);
}

/** A smaller gain of true tables lies within noise, and shares of it say nothing. */
export const WORTH = 0.15;

/** Bytes saved over the best that predicts nothing, as a share of what true tables save, where that is worth it. */
export function savedShare(measurement: MeasurementSummary, group: Group, least = WORTH): number | undefined {
  const blind = blindBytes(group, measurement.scenario.share);
  const known = beside(measurement, 'replay', group)?.bytesMoved;
  if (blind === undefined || known === undefined || known >= (1 - least) * blind) return undefined;
  return (blind - measurement.bytesMoved) / (blind - known);
}

/** Bytes that true tables save over the best that predicts nothing, as a share; below 0 where they load more. */
export function savedByTruth(measurement: MeasurementSummary, group: Group): number | undefined {
  const blind = blindBytes(group, measurement.scenario.share);
  const known = beside(measurement, 'replay', group)?.bytesMoved;
  return blind === undefined || known === undefined ? undefined : 1 - known / blind;
}

/** Throughput gained over a system without tables, as a share of what true tables gain, where that is worth it. */
export function gainedShare(
  measurement: MeasurementSummary,
  group: Group,
  base: 'lru' | 'none',
): number | undefined {
  const own = overSystem(measurement, base, group);
  const known = beside(measurement, 'replay', group);
  const most = known && overSystem(known, base, group);
  return own === undefined || most === undefined || most < 1 + WORTH ? undefined : (own - 1) / (most - 1);
}

/** Bytes over those of the best system of the group that predicts nothing, at the same budget. */
export function overBlind(
  { scenario, bytesMoved, system }: MeasurementSummary,
  group: Group,
): number | undefined {
  const least = blindBytes(group, scenario.share);
  return least === undefined || system === 'resident' ? undefined : bytesMoved / least;
}

function blindBytes({ measurements }: Group, share: number): number | undefined {
  const blind = measurements.filter(
    ({ system, scenario }) => BLIND.includes(system) && scenario.share === share,
  );
  const least = Math.min(...blind.map(({ bytesMoved }) => bytesMoved));
  return least > 0 && Number.isFinite(least) ? least : undefined;
}

/** Time of hash building over the time of the passes. */
export function hashBuilding({ tableSeconds, passSeconds }: MeasurementSummary): number | undefined {
  return tableSeconds === 0 ? undefined : tableSeconds / passSeconds;
}

/**
 * How much longer passes compute than those of `replay`, whose tables are read and not computed, as a share; waiting
 * for experts left out.
 */
export function takenFromPasses(measurement: MeasurementSummary, group: Group): number | undefined {
  const read = beside(measurement, 'replay', group);
  return read === undefined ? undefined : computing(measurement) / computing(read) - 1;
}

function computing({ passSeconds, stallSeconds }: MeasurementSummary): number {
  return passSeconds - stallSeconds;
}
