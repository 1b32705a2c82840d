/** P1 and P2: the feed-forward network of one expert, from bench/results/kernels.json and kernel-sets.json. */
import { rangeText } from '../compared-rows.js';
import { DASH, NOT_MEASURED, percent, times } from '../format.js';
import { type Recorded, recorded } from './recorded.js';
import { judged, type TargetRow, type Verdict } from './target-row.js';

interface KernelCase {
  format: string;
  activations: string;
  rows: number;
  operationsPerSecond: number;
  /** Of the bandwidth at which the same threads read memory, and of what their fused multiply-adds compute. */
  ofRead: number;
  ofFma: number;
}

/** A run for each set of kernels and number of threads. */
export interface Kernels extends Recorded {
  runs: { isa: string; threads: number; cases: KernelCase[] }[];
}

/** Most rows of one expert in decoding, and least rows of a prompt. */
const FEW_ROWS = 4;
const MANY_ROWS = 64;
/** Least share of the read bandwidth, by types of weights and activations. */
const OF_READ = [
  { types: ['f32 × f32', 'bf16 × f32', 'int8 × f32', 'int8 × int8'], least: 0.85 },
  { types: ['int4 × int8', 'mxfp4 × int8'], least: 0.7 },
] as const;
const LEAST_OF_FMA = 0.85;
const AMX = 'avx512amx';

const typesOf = ({ format, activations }: KernelCase) => `${format} × ${activations}`;

export function kernelTargets(found: Kernels | undefined): TargetRow[] {
  const command = recorded('node bench/scripts/kernels/kernels.mjs', found === undefined ? [] : [found]);
  const cases = found?.runs.flatMap(({ cases: own }) => own) ?? [];
  const threads = [...new Set(found?.runs.map((run) => run.threads))].join(' and ');
  const row = (
    own: Pick<TargetRow, 'target' | 'what' | 'limit'>,
    kinds: Shares[],
    least: number,
  ): TargetRow => ({
    ...own,
    figure: kinds.length === 0 ? DASH : kinds.map(shown).join(', '),
    verdict: verdictOf(kinds, least),
    inputs: threads === '' ? DASH : `${threads} threads`,
    control: DASH,
    command,
  });
  const few = OF_READ.map(({ types, least }) =>
    row(
      {
        target: 'P1',
        what: `an expert's network on 1 to ${FEW_ROWS} tokens: share of the bandwidth at which memory is read`,
        limit: `≥ ${percent(least, 0)}`,
      },
      types.map((name) => ({
        name,
        values: cases
          .filter((one) => typesOf(one) === name && one.rows <= FEW_ROWS)
          .map(({ ofRead }) => ofRead),
      })),
      least,
    ),
  );
  const many = row(
    {
      target: 'P2',
      what: `the same on ${MANY_ROWS} tokens and more: share of the peak of fused multiply-adds`,
      limit: `≥ ${percent(LEAST_OF_FMA, 0)}`,
    },
    [
      {
        name: 'f32 × f32',
        values: cases
          .filter((one) => typesOf(one) === 'f32 × f32' && one.rows >= MANY_ROWS)
          .map(({ ofFma }) => ofFma),
      },
    ],
    LEAST_OF_FMA,
  );
  return [...few, many];
}

interface Shares {
  name: string;
  values: readonly number[];
}

/** A kind that was not measured cannot have reached it, and hides no other that missed it. */
function verdictOf(kinds: readonly Shares[], least: number): Verdict {
  const measured = judged(
    kinds.flatMap(({ values }) => values),
    (value) => value >= least,
  );
  return measured === 'reached' && kinds.some(({ values }) => values.length === 0) ? NOT_MEASURED : measured;
}

function shown({ name, values }: Shares): string {
  return `${name} ${rangeText(values, (value) => percent(value, 0))}`;
}

/** What the tiles gain over VNNI. Their own peak is not measured, and there are none for bf16. */
export function tileTargets(found: Kernels | undefined): TargetRow[] {
  const runs = found?.runs ?? [];
  const gains = runs
    .filter(({ isa }) => isa === AMX)
    .flatMap(({ threads, cases }) => {
      const other = runs.find((run) => run.isa !== AMX && run.threads === threads);
      return cases.filter(isLarge).flatMap((one) => {
        const same = other?.cases.find((own) => typesOf(own) === typesOf(one) && own.rows === one.rows);
        return same === undefined ? [] : [one.operationsPerSecond / same.operationsPerSecond];
      });
    });
  return [
    {
      target: 'P2',
      what: `an expert's network on ${MANY_ROWS} tokens and more: share of the peak of AMX, bf16 and int8`,
      limit: '≥ 60 %',
      figure:
        gains.length === 0 ? DASH : `int8 × int8 ${rangeText(gains, times)} the operations of VNNI; no bf16`,
      verdict: NOT_MEASURED,
      inputs: DASH,
      control: DASH,
      command: recorded(
        'node bench/scripts/kernels/kernels.mjs --isa avx512vnni,avx512amx --only x int8',
        found === undefined ? [] : [found],
      ),
    },
  ];
}

function isLarge(one: KernelCase): boolean {
  return typesOf(one) === 'int8 × int8' && one.rows >= MANY_ROWS;
}
