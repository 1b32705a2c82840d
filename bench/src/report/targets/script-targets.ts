/** P13 and P16: what smaller measurements found, from the results of their scripts. */
import { isTold } from '../../../../dist/evaluation/paired-difference.js';
import { CANNOT_TELL, DASH, NOT_MEASURED, percent } from '../format.js';
import { judged, type TargetRow, type Verdict } from './target-row.js';

/** What the target table reads of bench/results/train-time.json. */
interface TrainTime {
  minutes: number;
  /** The network that was trained; results of before there were two have none. */
  network?: string;
  rows: { layer: string; reached: boolean[] }[];
  trainedOn: { sequences: number }[];
}

interface TypedAccuracy {
  inputs: number;
  accuracy: number;
  /** Answers that differ from the first run's. */
  flipped: number;
}

/** Of bench/results/quantized-accuracy.json. The first run is of f32. */
interface QuantizedAccuracy {
  runs: {
    experts: { dtype: string; group?: number };
    dense: { dtype: string };
    activations: string;
    control?: string;
    tasks: Record<string, TypedAccuracy | { perplexity: number }>;
  }[];
}

export interface ScriptResults {
  trainTime?: TrainTime | undefined;
  quantized?: QuantizedAccuracy | undefined;
}

export function scriptTargets({ trainTime, quantized }: ScriptResults): TargetRow[] {
  return [trainTarget(trainTime), ...quantizedTargets(quantized)];
}

function trainTarget(found: TrainTime | undefined): TargetRow {
  const row = {
    target: 'P13',
    what: '`sida train` to the hits of P10, 2 cores',
    limit: '≤ 10 min',
    control: DASH,
    command: '`node bench/scripts/predictor/train-time.mjs`',
  };
  if (found === undefined) return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH };
  const { minutes, network, rows, trainedOn } = found;
  const paper = network === 'lstm';
  const reached = rows.every((own) => own.reached.every(Boolean));
  const missed = rows.filter((own) => !own.reached.every(Boolean)).map(({ layer }) => layer);
  const hits = reached ? 'all hits reached' : `hits missed in ${missed.join('; ')}`;
  return {
    ...row,
    figure: `${minutes.toFixed(1)} min, ${hits}${paper ? '' : ' (another network than the paper’s)'}`,
    verdict: paper ? judged([minutes], (value) => reached && value <= 10) : NOT_MEASURED,
    inputs: trainedOn.map(({ sequences }) => String(sequences)).join(' + '),
  };
}

const LIMITS = [
  { dtype: 'int8', least: -0.002 },
  { dtype: 'int4', least: -0.01 },
] as const;

function quantizedTargets(found: QuantizedAccuracy | undefined): TargetRow[] {
  return LIMITS.map(({ dtype, least }): TargetRow => {
    const row = {
      target: 'P16',
      what: `accuracy of ${dtype} experts less that of f32, SST-2, a model whose experts matter`,
      limit: `≥ −${(-100 * least).toFixed(1)} points`,
      command: '`node bench/scripts/element-types/quantized-accuracy.mjs`',
    };
    const of = (run: QuantizedAccuracy['runs'][number] | undefined) =>
      run?.tasks.sst2 as TypedAccuracy | undefined;
    const plain = of(found?.runs[0]);
    const zeros = of(found?.runs.find(({ control }) => control === 'experts of zeros'));
    const own = (found?.runs ?? []).filter(
      ({ experts, dense, control }) =>
        experts.dtype === dtype && dense.dtype === 'bf16' && control === undefined,
    );
    const changes = own.flatMap((run) => {
      const accuracy = of(run)?.accuracy;
      return accuracy === undefined || plain === undefined ? [] : [accuracy - plain.accuracy];
    });
    if (plain === undefined || changes.length === 0) {
      return { ...row, figure: DASH, verdict: NOT_MEASURED, inputs: DASH, control: DASH };
    }
    const worst = Math.min(...changes);
    return {
      ...row,
      figure: `${points(worst)} points at worst of ${changes.length} (switch-mini, f32 ${percent(plain.accuracy, 2)})`,
      verdict: quantizedVerdict(worst, least, plain, zeros),
      inputs: String(plain.inputs),
      control: zeros === undefined ? DASH : `experts of zeros ${percent(zeros.accuracy, 2)}`,
    };
  });
}

function points(change: number): string {
  return `${change < 0 ? '−' : '+'}${Math.abs(100 * change).toFixed(2)}`;
}

function quantizedVerdict(
  worst: number,
  least: number,
  plain: TypedAccuracy,
  zeros: TypedAccuracy | undefined,
): Verdict {
  if (zeros === undefined) return NOT_MEASURED;
  if (!toldFromZeros(plain, zeros)) return CANNOT_TELL;
  return judged([worst], (value) => value >= least);
}

/**
 * Whether inputs of two labels tell the model from one with experts of zeros. Every answer that differs makes one of
 * both right, so that the interval of the paired difference follows from the counts.
 */
export function toldFromZeros(plain: TypedAccuracy, zeros: TypedAccuracy): boolean {
  const { inputs, flipped } = zeros;
  const mean = plain.accuracy - zeros.accuracy;
  const half = 1.96 * Math.sqrt((flipped / inputs - mean ** 2) / (inputs - 1));
  return isTold({ mean, low: mean - half, high: mean + half });
}
