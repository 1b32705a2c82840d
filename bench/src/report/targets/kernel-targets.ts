/** P1 and P2: the feed-forward network of one expert, from bench/results/kernels.json and kernels-amx.json. */
import { rangeText } from '../compared-rows.js';
import { DASH, NOT_MEASURED, percent } from '../format.js';
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
  /** Of the tiles of AMX with these activations; 0 for f32. */
  ofAmx?: number;
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
/** Other processors than those with AMX only imitate it. */
const ROUNDED_TO_BF16 = { types: ['bf16 × bf16'], least: 0.85 } as const;
/** On many tokens, with the best unit of a processor. */
const WITHOUT_AMX = {
  unit: 'fused multiply-adds',
  types: ['f32 × f32'],
  share: 'ofFma',
  least: 0.85,
} as const;
const WITH_AMX = {
  unit: 'the tiles of AMX',
  types: ['bf16 × bf16', 'int8 × int8'],
  share: 'ofAmx',
  least: 0.6,
} as const;

const typesOf = ({ format, activations }: KernelCase) => `${format} × ${activations}`;

export function kernelTargets(found: Kernels | undefined, amx: boolean): TargetRow[] {
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
  const few = [...OF_READ, ...(amx ? [ROUNDED_TO_BF16] : [])].map(({ types, least }) =>
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
  const best = amx ? WITH_AMX : WITHOUT_AMX;
  const many = row(
    {
      target: 'P2',
      what: `the same on ${MANY_ROWS} tokens and more: share of the peak of ${best.unit}`,
      limit: `≥ ${percent(best.least, 0)}`,
    },
    best.types.map((name) => ({
      name,
      values: cases
        .filter((one) => typesOf(one) === name && one.rows >= MANY_ROWS)
        .map((one) => one[best.share] ?? 0),
    })),
    best.least,
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
