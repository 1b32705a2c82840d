/** Tables of a run on a GPU. */

import { gpuIdentity } from '../runs/gpu.js';
import { referenceKey } from '../scenarios/scenarios.js';
import { systemNamed } from '../scenarios/systems.js';
import { type MeasurementSummary, perSecond } from './bench-file.js';
import type { CudaReport } from './cuda-facts.js';
import { bytes, DASH, dataTitle, ms, percent, rate, shareName } from './format.js';
import { inputsText } from './groups.js';
import type { Table } from './section.js';

export const CUDA_TABLES = {
  'cuda-machine': machineTable,
  'cuda-measurements': measurementsTable,
  'cuda-products': productsTable,
  'cuda-kernels': kernelsTable,
  'cuda-skipped': skippedTable,
} as const satisfies Record<string, (report: CudaReport) => Table>;

type CudaCase = NonNullable<CudaReport['gemm']>['cases'][number];

const FEW_ROWS = 16;

const perSecondOf = (value: number | undefined) =>
  value === undefined ? DASH : `${bytes(Math.round(value))}/s`;

function machineTable({ gpu, machine, limits, gemm }: CudaReport): Table {
  return {
    head: ['what', 'measured'],
    rows: [
      ['GPU', `${gpuIdentity(gpu)}, compute capability ${gpu.capability}, ${bytes(gpu.totalBytes)}`],
      ['host', machine],
      ...Object.entries(gpu.details),
      ['copy, page-locked host memory to device', perSecondOf(limits?.hostToDeviceBytesPerSecond)],
      [
        'the same, an expert of Switch-base in bf16 at a time',
        perSecondOf(limits?.expertToDeviceBytesPerSecond),
      ],
      ['copy, device to host', perSecondOf(limits?.deviceToHostBytesPerSecond)],
      ['copy inside the device, reads and writes', perSecondOf(limits?.deviceCopyBytesPerSecond)],
      ['tensor cores, bf16 from registers', gemm ? `${(gemm.mmaPerSecond / 1e12).toFixed(1)} TFLOP/s` : DASH],
    ],
  };
}

function measurementsTable({ measurements }: CudaReport): Table {
  const all = measurements?.measurements ?? [];
  const residents = new Map(
    all
      .filter(({ system }) => system === 'resident')
      .map((measurement) => [referenceKey(measurement.scenario), measurement] as const),
  );
  return {
    head: [
      'model',
      'task',
      'inputs',
      'batch',
      'budget',
      'system',
      'sentences/s',
      'of resident',
      'p50 ms',
      'p95 ms',
      'bytes loaded per sentence',
      'stall',
      'hits',
      'budget bytes',
      'own peak',
      'driver’s peak',
      'answers',
    ],
    rows: all.map((measurement) =>
      measurementRow(measurement, residents.get(referenceKey(measurement.scenario))),
    ),
  };
}

function measurementRow(measurement: MeasurementSummary, resident: MeasurementSummary | undefined): string[] {
  const { scenario, system, sentences, needed } = measurement;
  const { driver, exact } = systemNamed(system);
  const peer = driver === 'gpu-peer';
  const hits = needed === 0 ? undefined : (measurement.resident + measurement.prefetched) / needed;
  return [
    scenario.model,
    dataTitle(scenario.data),
    inputsText(measurement),
    String(scenario.batch),
    shareName(scenario.share),
    system,
    rate(perSecond(measurement)),
    resident ? percent(perSecond(measurement) / perSecond(resident)) : DASH,
    ms(measurement.p50Ms),
    ms(measurement.p95Ms),
    peer ? DASH : bytes(Math.round(measurement.bytesMoved / sentences)),
    peer ? DASH : percent(measurement.stallSeconds / measurement.passSeconds),
    percent(hits),
    bytes(Math.round(measurement.budgetBytes)),
    bytes(Math.round(measurement.peakBytes)),
    driversPeak(measurement),
    answers(measurement, resident, exact),
  ];
}

/** Growth of the memory in use on the GPU during the measurement. */
function driversPeak({ gpuBeforeBytes, gpuPeakBytes }: MeasurementSummary): string {
  return gpuBeforeBytes === undefined || gpuPeakBytes === undefined
    ? DASH
    : bytes(Math.round(gpuPeakBytes - gpuBeforeBytes));
}

function answers(
  { digest, agreement }: MeasurementSummary,
  resident: MeasurementSummary | undefined,
  exact: boolean,
): string {
  if (resident === undefined) return DASH;
  if (exact) return digest === resident.digest ? 'identical' : 'DIFFERENT';
  return `${percent(agreement)} of the labels`;
}

/** Few rows are bound by the weights' bytes, so they stand beside a copy; more rows beside the tensor cores. */
function productsTable({ gemm }: CudaReport): Table {
  const cases = gemm?.cases ?? [];
  const rows = [...new Set(cases.map((one) => one.rows))];
  const few = (count: number) => count <= FEW_ROWS;
  const kinds = new Map<string, CudaCase[]>();
  for (const one of cases) {
    // The largest number of rows has fewer products, so that its activations fit.
    const name = `${one.format} ${one.k} × ${one.n} ${one.products === 1 ? 'one' : 'many'}`;
    kinds.set(name, [...(kinds.get(name) ?? []), one]);
  }
  return {
    head: [
      'weights',
      'k × n',
      'products',
      ...rows.map((count) => `${count} rows, of ${few(count) ? 'a copy' : 'tensor cores'}`),
    ],
    rows: [...kinds.values()].map((own) => [
      own[0]!.format,
      `${own[0]!.k} × ${own[0]!.n}`,
      [...new Set(own.map(({ products }) => products))].join(', '),
      ...rows.map((count) => {
        const one = own.find((each) => each.rows === count);
        return percent(one && (few(count) ? one.ofCopy : one.ofMma));
      }),
    ]),
  };
}

function kernelsTable({ rows }: CudaReport): Table {
  return {
    head: ['kernel', 'tokens', 'µs', 'bytes', 'of copy'],
    rows: (rows?.cases ?? []).map((one) => [
      one.kernel,
      String(one.tokens),
      (one.seconds * 1e6).toFixed(2),
      perSecondOf(one.bytesPerSecond),
      percent(one.ofCopy),
    ]),
  };
}

/** A line for each reason. */
function skippedTable({ skipped, measurements }: CudaReport): Table {
  const reasons = new Map<string, string[]>();
  for (const { what, why } of [...skipped, ...(measurements?.skipped ?? [])]) {
    reasons.set(why, [...(reasons.get(why) ?? []), what]);
  }
  return { head: ['left out', 'why'], rows: [...reasons].map(([why, what]) => [what.join(', '), why]) };
}
