import { describe, expect, it } from 'vitest';
import { type BenchFile, type MeasurementSummary, summarize } from '../../src/report/bench-file.js';
import type { CudaReport, GemmLimits } from '../../src/report/cuda-facts.js';
import { CUDA_TABLES } from '../../src/report/cuda-tables.js';
import { cudaTargets, met } from '../../src/report/cuda-targets.js';
import { measurementName, type Scenario } from '../../src/scenarios/scenarios.js';
import type { SystemName } from '../../src/scenarios/systems.js';
import { resultOf, sampleOf } from '../support/fixture.js';

const MODEL = 'switch-base-128-bf16';

function measurement(
  system: SystemName,
  wallMs: number,
  changes: Partial<Scenario> = {},
): MeasurementSummary {
  const whole = system === 'resident' || system === 'transformers-gpu';
  const scenario: Scenario = {
    ...{ model: MODEL, data: 'sst2', share: whole ? 1 : 0.2, link: 'host', device: 'cuda' },
    ...{ batch: 1, lookahead: 4, ...changes },
  };
  const { answers: _, warnings: __, ...numbers } = sampleOf({ wallMs, sentences: 10 });
  const name = measurementName({ scenario, system });
  return { scenario, system, name, commits: ['abc'], ...numbers, wallMsOfRounds: [wallMs], agreement: 1 };
}

const gemm = (ofCopy: number[]): GemmLimits => ({
  device: 'a GPU',
  rounds: 12,
  copyBytesPerSecond: 3e12,
  mmaPerSecond: 1e15,
  cases: [
    ...ofCopy.map((share, i) => ({ rows: i + 1, ofCopy: share })),
    // Many rows are not bound by the weights' bytes.
    { rows: 512, ofCopy: 0.01 },
  ].map((one) => ({
    ...{
      format: 'bf16',
      k: 768,
      n: 3072,
      products: 1,
      bytesPerSecond: 1,
      operationsPerSecond: 1,
      ofMma: 0.5,
    },
    ...one,
  })),
});
const MEASUREMENTS = [
  measurement('resident', 100),
  measurement('lstm', 125),
  measurement('predicted', 140),
  measurement('transformers-gpu', 450),
  measurement('resident', 50, { batch: 16 }),
  measurement('lstm', 55, { batch: 16 }),
  measurement('lstm', 1, { device: 'cpu', batch: 16 }),
];
const row = (
  where: string,
  what: RegExp,
  measurements = MEASUREMENTS,
  products: GemmLimits | null = gemm([0.9, 0.79]),
) => cudaTargets(measurements, products).find((one) => one.where === where && what.test(one.what))!;

describe('cudaTargets', () => {
  it('compares with the resident run of the same batch', () => {
    const one = row(`${MODEL}, lstm`, /batch 1$/);
    expect(one).toMatchObject({ limit: 0.75, value: 0.8 });
    expect(met(one)).toBe(true);
    expect(met(row(`${MODEL}, predicted`, /batch 1$/))).toBe(false);
    const sixteen = row(`${MODEL}, lstm`, /batch 16$/);
    expect(sixteen.value).toBeCloseTo(50 / 55);
    expect([sixteen.limit, met(sixteen)]).toEqual([0.9, true]);
  });

  it('compares with transformers of the same size, and says what was not measured', () => {
    expect(row(`${MODEL}, resident`, /transformers/)).toMatchObject({ limit: 4, value: 4.5 });
    expect(met(row(`${MODEL}, lstm at 20 %`, /transformers/))).toBe(false);
    const other = row('switch-base-256-bf16, resident', /transformers/);
    expect([other.value, met(other)]).toEqual([undefined, undefined]);
  });

  it('takes the worst of the products with few rows', () => {
    const one = row('bf16', /GEMV/);
    expect([one.value, met(one)]).toEqual([0.79, false]);
    expect(met(row('all formats', /GEMV/, MEASUREMENTS, null))).toBeUndefined();
  });

  it('has a row for each target where nothing was measured', () => {
    const rows = cudaTargets([], null);
    expect(rows.map(met)).toEqual(rows.map(() => undefined));
    expect(rows.map(({ limit }) => limit)).toEqual([0.9, 0.75, ...new Array<number>(8).fill(4), 0.8]);
  });
});

describe('CUDA_TABLES', () => {
  const file: BenchFile = {
    ...summarize({ ...resultOf(), skipped: [{ what: 'a', why: 'no disk' }, { what: 'b', why: 'no disk' }] }, { fidelity: [], dependency: [] }), // biome-ignore format: one line
    measurements: MEASUREMENTS.slice(0, 4).map((one) => ({
      ...one,
      gpuBeforeBytes: 2 ** 30,
      gpuPeakBytes: 3 * 2 ** 30,
    })),
  };
  const report: CudaReport = {
    ...{ format: 'sida-cuda-bench', version: 1, command: 'c', commit: 'abc', machine: 'm', node: 'v20' },
    gpu: { name: 'a GPU', capability: '9.0', totalBytes: 1e11, emulated: false, driver: '580', details: {} },
    ...{ limits: null, gemm: gemm([0.9]), rows: null, skipped: [], measurements: file },
  };

  it('has as many fields in a row as in the head', () => {
    for (const [name, table] of Object.entries(CUDA_TABLES)) {
      const { head, rows } = table(report);
      for (const fields of rows) expect(fields.length, name).toBe(head.length);
    }
  });

  it('says which answers are the resident run’s, and what the driver counted', () => {
    const { head, rows } = CUDA_TABLES['cuda-measurements'](report);
    const of = (name: string) => rows.map((fields) => fields[head.indexOf(name)]);
    expect(of('answers')).toEqual([
      'identical',
      'identical',
      '100.0 % of the labels',
      '100.0 % of the labels',
    ]);
    expect(of('driver’s peak')).toEqual(Array(4).fill('2.00 GiB'));
    const other = {
      ...file,
      measurements: [file.measurements[0]!, { ...file.measurements[1]!, digest: 'd'.repeat(64) }],
    };
    expect(CUDA_TABLES['cuda-measurements']({ ...report, measurements: other }).rows[1]!.at(-1)).toBe(
      'DIFFERENT',
    );
  });

  it('gives each reason once', () => {
    expect(CUDA_TABLES['cuda-skipped'](report).rows).toEqual([['a, b', 'no disk']]);
  });
});
