/** Targets of the cuda device, and whether it reached them. */

import { referenceKey } from '../scenarios/scenarios.js';
import { type MeasurementSummary, perSecond } from './bench-file.js';
import type { GemmLimits } from './cuda-facts.js';

export interface TargetRow {
  what: string;
  /** Model, inputs, system. */
  where: string;
  limit: number;
  /** Undefined if it was not measured. */
  value: number | undefined;
  /** A ratio is written as times, a share as percent. */
  unit: 'times' | 'percent';
}

export const SHARE_OF_RESIDENT = { batch: 0.9, one: 0.75 };
export const OVER_TRANSFORMERS = 4;
export const GEMV_SHARE = 0.8;
/** Products with at most so many rows are bound by the weights' bytes. */
const GEMV_ROWS = 4;
/**
 * `lstm` and `attention` answer exactly, `predicted` as the SiDA paper does. `replay` knows the routing: no predictor
 * does better.
 */
const OURS = ['lstm', 'attention', 'predicted', 'replay'];
const SPARSE = ['switch-base-128-bf16', 'switch-base-256-bf16'];

export function met({ value, limit }: TargetRow): boolean | undefined {
  return value === undefined ? undefined : value >= limit;
}

export function cudaTargets(
  measurements: readonly MeasurementSummary[],
  gemm: GemmLimits | null,
): TargetRow[] {
  const own = measurements.filter(({ scenario }) => scenario.device === 'cuda');
  return [...shares(own), ...overPeer(own), ...gemvShares(gemm)];
}

/** Throughput at 20 % over that of the resident run of the same batch. */
function shares(measurements: readonly MeasurementSummary[]): TargetRow[] {
  const residents = new Map(
    measurements
      .filter(({ system }) => system === 'resident')
      .map((measurement) => [referenceKey(measurement.scenario), measurement] as const),
  );
  const asked = measurements.filter(
    ({ system, scenario: { share, data } }) => share === 0.2 && data === 'sst2' && OURS.includes(system),
  );
  const row = (batch: number, where: string, value: number | undefined): TargetRow => ({
    what: `throughput at 20 % over resident, SST-2, batch ${batch}`,
    where,
    limit: batch >= 16 ? SHARE_OF_RESIDENT.batch : SHARE_OF_RESIDENT.one,
    value,
    unit: 'percent',
  });
  if (asked.length === 0) return [16, 1].map((batch) => row(batch, 'all sizes', undefined));
  return asked.map((measurement) => {
    const { model, batch } = measurement.scenario;
    const resident = residents.get(referenceKey(measurement.scenario));
    return row(
      batch,
      `${model}, ${measurement.system}`,
      resident && perSecond(measurement) / perSecond(resident),
    );
  });
}

/**
 * Throughput of ours over transformers with every expert resident, batch 1. A model without measurements is not
 * measured.
 */
function overPeer(measurements: readonly MeasurementSummary[]): TargetRow[] {
  return SPARSE.flatMap((name) => {
    const at = measurements.filter(
      ({ scenario: { model, data, batch } }) => model === name && data === 'sst2' && batch === 1,
    );
    const peer = at.find(({ system }) => system === 'transformers-gpu');
    const wanted = ['resident', 'lstm', 'attention', 'predicted'].map((system) => ({
      system,
      measurement: at.find(
        (measurement) => measurement.system === system && [1, 0.2].includes(measurement.scenario.share),
      ),
    }));
    return wanted.map(
      ({ system, measurement }): TargetRow => ({
        what: 'throughput over transformers’ resident, SST-2, batch 1',
        where: `${name}, ${system}${measurement && measurement.scenario.share < 1 ? ' at 20 %' : ''}`,
        limit: OVER_TRANSFORMERS,
        value: peer && measurement && perSecond(measurement) / perSecond(peer),
        unit: 'times',
      }),
    );
  });
}

/** The smallest share over all matrices of a format, for row counts that are bound by the weights' bytes. */
function gemvShares(gemm: GemmLimits | null): TargetRow[] {
  const few = gemm?.cases.filter(({ rows }) => rows <= GEMV_ROWS) ?? [];
  const formats = [...new Set(few.map(({ format }) => format))];
  const row = (where: string, value: number | undefined): TargetRow => ({
    what: `expert GEMV over the measured bandwidth, 1–${GEMV_ROWS} rows, the least`,
    where,
    limit: GEMV_SHARE,
    value,
    unit: 'percent',
  });
  if (formats.length === 0) return [row('all formats', undefined)];
  return formats.map((format) =>
    row(format, Math.min(...few.filter((one) => one.format === format).map(({ ofCopy }) => ofCopy))),
  );
}
