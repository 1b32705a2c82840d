/** Tables of a run on a GPU. */
import type { CudaReport } from './cuda-facts.js';
import { cudaTargets, met } from './cuda-targets.js';
import { gpuIdentity } from './gpu.js';
import { type CellSummary, perSecond } from './report/bench-file.js';
import { bytes, DASH, dataTitle, ms, percent, rate, shareName, times } from './report/format.js';
import type { Table } from './report/section.js';
import { referenceKey } from './scenarios.js';
import { systemNamed } from './systems.js';

export const CUDA_TABLES = {
  'cuda-machine': machineTable,
  'cuda-targets': targetsTable,
  'cuda-cells': cellsTable,
  'cuda-products': productsTable,
  'cuda-kernels': kernelsTable,
  'cuda-skipped': skippedTable,
} as const satisfies Record<string, (report: CudaReport) => Table>;

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

function targetsTable({ cells, gemm }: CudaReport): Table {
  const rows = cudaTargets(cells?.cells ?? [], gemm).map((row) => {
    const show = row.unit === 'times' ? times : percent;
    const verdict = { true: 'met', false: 'MISSED', undefined: 'not measured' }[String(met(row))]!;
    return [row.what, row.where, `≥ ${show(row.limit)}`, show(row.value), verdict];
  });
  const compared = cells?.comparisons ?? 0;
  const differing = cells?.differing ?? [];
  rows.push([
    `exact runs whose answers are not the resident run's, bit for bit, of ${compared}`,
    'all',
    '0',
    String(differing.length),
    compared === 0 ? 'not measured' : differing.length === 0 ? 'met' : `MISSED: ${differing.join(', ')}`,
  ]);
  return { head: ['target', 'where', 'limit', 'measured', ''], rows };
}

function cellsTable({ cells }: CudaReport): Table {
  const all = cells?.cells ?? [];
  const residents = new Map(
    all
      .filter(({ system }) => system === 'resident')
      .map((cell) => [referenceKey(cell.scenario), cell] as const),
  );
  return {
    head: [
      'model',
      'inputs',
      'batch',
      'budget',
      'system',
      'sentences/s',
      'of resident',
      'p50 ms',
      'p95 ms',
      'moved a sentence',
      'stall',
      'hits',
      'budget bytes',
      'own peak',
      'driver’s peak',
      'answers',
    ],
    rows: all.map((cell) => cellRow(cell, residents.get(referenceKey(cell.scenario)))),
  };
}

function cellRow(cell: CellSummary, resident: CellSummary | undefined): string[] {
  const { scenario, system, sentences, needed } = cell;
  const { driver, exact } = systemNamed(system);
  const peer = driver === 'gpu-peer';
  const hits = needed === 0 ? undefined : (cell.resident + cell.prefetched) / needed;
  return [
    scenario.model,
    dataTitle(scenario.data),
    String(scenario.batch),
    shareName(scenario.share),
    system,
    rate(perSecond(cell)),
    resident ? percent(perSecond(cell) / perSecond(resident)) : DASH,
    ms(cell.p50Ms),
    ms(cell.p95Ms),
    peer ? DASH : bytes(Math.round(cell.bytesMoved / sentences)),
    peer ? DASH : percent(cell.stallSeconds / cell.passSeconds),
    percent(hits),
    bytes(Math.round(cell.budgetBytes)),
    bytes(Math.round(cell.peakBytes)),
    driversPeak(cell),
    answers(cell, resident, exact),
  ];
}

/** What the GPU held more than before the cell. */
function driversPeak({ gpuBeforeBytes, gpuPeakBytes }: CellSummary): string {
  return gpuBeforeBytes === undefined || gpuPeakBytes === undefined
    ? DASH
    : bytes(Math.round(gpuPeakBytes - gpuBeforeBytes));
}

function answers(
  { digest, agreement }: CellSummary,
  resident: CellSummary | undefined,
  exact: boolean,
): string {
  if (resident === undefined) return DASH;
  if (exact) return digest === resident.digest ? 'identical' : 'DIFFERENT';
  return `${percent(agreement)} of the labels`;
}

function productsTable({ gemm }: CudaReport): Table {
  return {
    head: ['weights', 'k × n', 'rows', 'products', 'bytes', 'of copy', 'operations', 'of tensor cores'],
    rows: (gemm?.cases ?? []).map((one) => [
      one.format,
      `${one.k} × ${one.n}`,
      String(one.rows),
      String(one.products),
      perSecondOf(one.bytesPerSecond),
      percent(one.ofCopy),
      `${(one.operationsPerSecond / 1e12).toFixed(2)} TFLOP/s`,
      percent(one.ofMma),
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
function skippedTable({ skipped, cells }: CudaReport): Table {
  const reasons = new Map<string, string[]>();
  for (const { what, why } of [...skipped, ...(cells?.skipped ?? [])]) {
    reasons.set(why, [...(reasons.get(why) ?? []), what]);
  }
  return { head: ['left out', 'why'], rows: [...reasons].map(([why, what]) => [what.join(', '), why]) };
}
